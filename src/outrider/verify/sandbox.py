"""A sandbox for untrusted programs, which uses only features of the operating system.

Each sandbox has a separate process namespace and no network. The only files on disk that programs can see are those of
Python and the C libraries, which are read-only. ``/tmp`` is empty and in memory. All resources are limited. If `bwrap`
is installed, it creates the sandbox; otherwise, Outrider creates the sandbox with system calls
(:mod:`outrider.verify.inside.namespaces`). ``docs/sandbox.md`` lists attacks that the sandbox does not prevent.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import marshal
import os
import select
import shutil
import signal
import site
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.abc import InspectLoader
from types import CodeType
from typing import Any, Literal, Self

from outrider.verify.inside.namespaces import DEVICES, HOST
from outrider.verify.inside.plain import Frames, dumps, loads
from outrider.verify.memory import memory_failures
from outrider.verify.slow_sandbox import Watch

Way = Literal["bwrap", "namespaces", "none"]

SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")  # needed by dynamically linked programs
PYTHON = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
# each module comes after the modules that it imports
PARTS = ["plain", "namespaces", "seccomp", "child", "programs", "compare", "calls", "functional", "unit", "guest"]
START = """
import marshal, sys
with open(0, "rb", buffering=0, closefd=False) as stream:
    size, parts = int.from_bytes(stream.read(8), "little"), []
    while size and (part := stream.read(size)):
        parts.append(part)
        size -= len(part)
for name, code in marshal.loads(b"".join(parts)):
    sys.modules[name] = module = type(sys)(name)
    exec(code, module.__dict__)
module.main()
"""
ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
}  # a fixed hash seed gives sets a fixed order, so verdicts are reproducible
LARGEST_REPLY = 1 << 30  # maximum bytes of a reply; the limit on output already limits what the guest sends
LOOK_SECONDS = 0.25  # mean time between checks of a sandbox that has not answered
MEMORY_RAN_OUT = "the program was killed while memory ran out on the machine"
PARENTS = 3  # number of the sandbox's own processes, which the kernel counts together with the program's processes


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of one untrusted program.

    Attributes:
        seconds: wall-clock limit of the whole sandbox. Set a large limit, since the clock also runs while other work
            keeps the machine busy.
        cpu_seconds: CPU time limit per process. A small limit is safe, since the CPU time of a program does not depend
            on other work on the machine.
        memory_gb: maximum address space per process, in GiB.
        processes: maximum number of processes and threads at any time.
        output_mb: maximum size in MiB of each file that the program writes, including standard output.
        scratch_mb: maximum total size in MiB of the files in ``/tmp``.
        files: maximum number of open files per process.
    """

    seconds: float = 60.0
    cpu_seconds: int = 10
    memory_gb: float = 1.0
    processes: int = 16
    output_mb: int = 16
    scratch_mb: int = 64
    files: int = 64

    def as_job(self, way: Way) -> dict[str, int]:
        """Return the limits in the format that the guest (the first process inside the sandbox) reads."""
        return {
            "cpu": self.cpu_seconds,
            "memory": int(self.memory_gb * 2**30),
            # without a user namespace, there is no limit, since the kernel would count all processes of this user
            "processes": self.processes + PARENTS if way != "none" else 0,
            "file": self.output_mb << 20,
            "files": self.files,
        }


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """The result of running a program.

    Attributes:
        status: exit status, or minus the number of the signal that ended the program.
        stdout: the whole standard output.
        stderr: the last part of standard error.
        cpu_seconds: CPU time in seconds of the program and of the children that it waited for.
        used_up: whether the program was ended because it reached its CPU time limit.
        full: whether the output reached its size limit.
    """

    status: int
    stdout: bytes
    stderr: bytes
    cpu_seconds: float
    used_up: bool
    full: bool


class SandboxError(RuntimeError):
    """The sandbox or the machine failed, for a reason outside the program."""


class ProgramFaultError(RuntimeError):
    """The program failed because it reached its time limit or ended the process that verifies the program."""


class Sandbox:
    """One sandbox, used in a ``with`` block. At the end of the block, its processes are killed and its files deleted.

    Args:
        job: what the process in the sandbox has to do (see :mod:`outrider.verify.inside.guest`). This class adds the
            limits.
        limits: the limits of the program.
        way: the method that creates the sandbox (see :func:`find_way`).

    Raises:
        SandboxError: in every method, if the sandbox cannot be created or dies.
        TimeoutError: in ``receive``, if the time limit is reached because the machine is busy.
        ProgramFaultError: in ``receive``, if the program causes the sandbox to reach the time limit or to die.
    """

    def __init__(self, job: dict[str, Any], limits: Limits, way: Way) -> None:
        self._limits = limits
        self._way = way
        self._memory_failures = memory_failures()
        self._folder = tempfile.TemporaryDirectory(prefix="outrider-") if way == "none" else None
        self._process = subprocess.Popen(
            _command(way, limits),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            cwd=self._folder.name if self._folder else "/",
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._watch = Watch(self._process.pid, limits.cpu_seconds)
        deadline = time.monotonic() + limits.seconds
        self._frames = _Timed(self._process.stdout.fileno(), self._process.stdin.fileno(), deadline, self._watch)
        with contextlib.suppress(EOFError):
            self._frames.send(_guest())
        self.send({**job, "limits": limits.as_job(way)})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def send(self, value: Any) -> None:
        """Send plain data to the process in the sandbox."""
        self._watch.asked()
        with contextlib.suppress(EOFError):  # the sandbox has ended; receive() raises the reason
            self._frames.send(dumps(value))

    def receive(self) -> Any:
        """Return the next message from the process in the sandbox."""
        try:
            return loads(self._frames.receive(LARGEST_REPLY))
        except TimeoutError:
            if own := self._watch.own:
                raise ProgramFaultError(f"not done after {self._limits.seconds:g} s ({own})") from None
            raise
        except EOFError:
            raise self._end() from None

    @property
    def memory_ran_out(self) -> bool:
        """Whether the kernel has, or may have, killed a process for lack of memory since the sandbox was created."""
        failures = memory_failures()
        return failures is None or failures != self._memory_failures

    def close(self) -> None:
        """End all processes in the sandbox."""
        process = self._process
        for end in (process.stdin, process.stdout, process.stderr):
            assert end is not None
            with contextlib.suppress(BrokenPipeError):
                end.close()
        if process.poll() is None:
            # the outer process then kills process 1, which ends all processes inside
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0)
        with contextlib.suppress(
            ProcessLookupError
        ):  # without namespaces, the program is in this process group, and may outlive the group's leader
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if self._folder:
            self._folder.cleanup()

    def _end(self) -> RuntimeError:
        """Return the error for a sandbox that ended without sending a result."""
        process = self._process
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
        process.kill()
        status = process.wait()
        if status == signal.SIGXCPU:
            return ProgramFaultError(
                f"the returned value used up {self._limits.cpu_seconds} s of CPU time of the tests"
            )
        # if a signal ended the sandbox although memory was left, the program is the cause, since no other process sends
        # signals
        if (status < 0 or status > 128) and not self.memory_ran_out:
            return ProgramFaultError(f"it ended its tester, with status {status}")
        assert process.stderr is not None
        last = process.stderr.read(4000).decode(errors="replace").strip().splitlines()[-1:]
        return SandboxError("the sandbox ended without an answer" + (f": {last[0]}" if last else f", status {status}"))


class _Timed(Frames):
    """A message channel that waits for data only until a deadline, and watches the sandbox while waiting."""

    def __init__(self, read: int, write: int, deadline: float, watch: Watch) -> None:
        super().__init__(read, write)
        self._deadline, self._watch = deadline, watch

    def _wait(self) -> None:
        poll = select.poll()
        poll.register(self.read, select.POLLIN)
        while True:
            pause = self._watch.next_look(LOOK_SECONDS)
            if poll.poll(1000 * max(0.0, min(pause, self._deadline - time.monotonic()))):
                return
            self._watch.look(2 * LOOK_SECONDS)
            if time.monotonic() >= self._deadline:
                raise TimeoutError


class Programs(Sandbox):
    """A sandbox that runs one program on several inputs, one after another."""

    def __init__(self, source: str, limits: Limits, way: Way) -> None:
        super().__init__({"kind": "programs", "source": source}, limits, way)

    def run(self, stdin: bytes) -> ProgramResult:
        """Run the program on an input. When the program ends, all processes that it started are killed."""
        self.send(stdin)
        reply = self.receive()
        finished = ProgramResult(cpu_seconds=reply.pop("cpu"), **reply)
        if finished.status == -signal.SIGKILL and not finished.used_up and self.memory_ran_out:
            raise SandboxError(MEMORY_RAN_OUT)
        return finished


def _command(way: Way, limits: Limits) -> list[str]:
    shown, hidden = shown_and_hidden()
    python = [PYTHON, "-P", "-s", "-S", "-B", "-X", "utf8"]  # no installed packages, user folder or bytecode files
    scratch = str(limits.scratch_mb << 20)
    guest = [*python, "-c", START, way, str(os.getpid()), scratch, os.pathsep.join(shown), os.pathsep.join(hidden)]
    return [*_bwrap(shown, hidden, scratch), *guest] if way == "bwrap" else guest


def _bwrap(shown: list[str], hidden: list[str], scratch: str) -> list[str]:
    options = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--unshare-user", "--disable-userns"]
    options += ["--hostname", HOST, "--uid", "65534", "--gid", "65534", "--cap-drop", "ALL"]
    options += ["--die-with-parent", "--new-session", "--as-pid-1"]
    for path in shown:
        options += ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--ro-bind", path, path]
    for path in hidden:
        options += ["--tmpfs", path, "--remount-ro", path]
    for path in DEVICES:
        options += ["--dev-bind", path, path]
    options += ["--size", scratch, "--tmpfs", "/tmp", "--symlink", "/tmp", "/dev/shm", "--remount-ro", "/"]
    return [*options, "--chdir", "/tmp"]


@functools.cache
def _guest() -> bytes:
    """Return the compiled code that runs inside the sandbox."""
    # the code is sent through the pipe, so no file of Outrider has to be visible inside
    modules: list[tuple[str, CodeType]] = []
    for name in ["outrider.verify.inside", *(f"outrider.verify.inside.{part}" for part in PARTS)]:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert isinstance(spec.loader, InspectLoader)
        code = spec.loader.get_code(name)
        assert code is not None
        modules.append((name, code))
    return marshal.dumps(modules)


@functools.cache
def shown_and_hidden() -> tuple[list[str], list[str]]:
    """Return the paths that are visible inside the sandbox (C libraries, Python, its standard library), and the hidden
    paths below them."""
    libraries = [os.path.join(sys.base_prefix, name) for name in ("lib", "lib64")]
    shown: list[str] = []
    for path in sorted({*SYSTEM, PYTHON, *libraries, os.path.dirname(os.__file__)}, key=len):
        if os.path.exists(path) and not any(path.startswith(other + "/") for other in shown):
            shown.append(path)
    packages = [*site.getsitepackages([sys.base_prefix]), "/usr/lib/python3/dist-packages"]
    hidden = [p for p in packages if os.path.isdir(p) and any(p.startswith(other + "/") for other in shown)]
    return shown, sorted(set(hidden))
