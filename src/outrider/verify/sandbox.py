"""A sandbox for programs that nobody has read, made of parts of the operating system.

Each sandbox is a fresh world: a process namespace, no network, a read-only view of Python and the C libraries and
nothing else of the disk, an empty ``/tmp`` in memory, limits on everything. `bwrap` makes it where it is installed,
else the kernel's own calls (:mod:`outrider.verify.inside.namespaces`). What it does not protect from is in
``docs/sandbox.md``.
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

from outrider.errors import UserError
from outrider.verify.inside.namespaces import DEVICES
from outrider.verify.inside.plain import Frames, dumps, loads

Isolation = Literal["required", "none"]
Way = Literal["bwrap", "namespaces", "none"]

WAYS: tuple[Way, ...] = ("bwrap", "namespaces")  # in the order in which they are tried
SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")  # what a dynamically linked program needs
PYTHON = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
GUEST = ("", ".plain", ".namespaces", ".child", ".programs", ".calls", ".unit", ".guest")  # each after what it imports
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
}  # sets have one order: verdicts can be repeated
LARGEST_REPLY = 1 << 30  # bytes; the guest bounds what it sends by the limit of output
PARENTS = 3  # processes of the sandbox itself that the kernel counts with those of the program


@dataclass(frozen=True, slots=True)
class Limits:
    """What one untrusted program may use.

    Attributes:
        seconds: wall clock of the whole sandbox. Generous: it runs on a busy machine while the program waits.
        cpu_seconds: CPU time of each of its processes. Tight: it does not depend on what else the machine does.
        memory_gb: GiB of address space of each of its processes.
        processes: of it, threads included, at any time.
        output_mb: MiB of each file that it writes, standard output included.
        scratch_mb: MiB of all files in ``/tmp``.
        files: that each of its processes may have open.
    """

    seconds: float = 60.0
    cpu_seconds: int = 10
    memory_gb: float = 1.0
    processes: int = 16
    output_mb: int = 16
    scratch_mb: int = 64
    files: int = 64

    def as_job(self, way: Way) -> dict[str, int]:
        """As the guest takes them. Without namespaces the kernel would count all processes of the user."""
        return {
            "cpu": self.cpu_seconds,
            "memory": int(self.memory_gb * 2**30),
            "processes": self.processes + PARENTS if way != "none" else 0,
            "file": self.output_mb << 20,
            "files": self.files,
        }


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended.

    Attributes:
        status: exit status, or minus the signal that ended it.
        stdout: all of it.
        stderr: the end of it.
        cpu_seconds: of it and of those of its children for which it waited.
        used_up: it was ended because it had used its CPU time.
        full: its output reached the limit.
    """

    status: int
    stdout: bytes
    stderr: bytes
    cpu_seconds: float
    used_up: bool
    full: bool


class SandboxError(RuntimeError):
    """The sandbox itself failed: this says nothing of the program in it."""


class Sandbox:
    """One sandbox, which is gone with all its processes and files when the ``with`` block ends.

    Args:
        job: what the guest is to do, see :mod:`outrider.verify.inside.guest`; the limits are added.
        limits: of the program.
        way: how it is made; see :func:`find_way`.

    Raises:
        SandboxError: in each method, where the sandbox cannot be made or dies.
        TimeoutError: in ``receive``, when the wall clock has run out.
    """

    def __init__(self, job: dict[str, Any], limits: Limits, way: Way) -> None:
        self._deadline = time.monotonic() + limits.seconds
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
        self._frames = _Timed(self._process.stdout.fileno(), self._process.stdin.fileno(), self._deadline)
        with contextlib.suppress(EOFError):
            self._frames.send(_guest())
        self.send({**job, "limits": limits.as_job(way)})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def send(self, value: Any) -> None:
        """Send plain data to the guest."""
        with contextlib.suppress(EOFError):  # receive() tells why it is gone
            self._frames.send(dumps(value))

    def receive(self) -> Any:
        """The guest's next message."""
        try:
            return loads(self._frames.receive(LARGEST_REPLY))
        except EOFError:
            raise SandboxError(f"the sandbox ended without an answer{self._reason()}") from None

    def close(self) -> None:
        """End everything in it."""
        process = self._process
        for end in (process.stdin, process.stdout, process.stderr):
            assert end is not None
            with contextlib.suppress(BrokenPipeError):
                end.close()
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0)
        with contextlib.suppress(ProcessLookupError):  # the group outlives its leader where the program is in it
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if self._folder:
            self._folder.cleanup()

    def _reason(self) -> str:
        """What was said on standard error, as the end of a sentence."""
        assert self._process.stderr is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        self._process.kill()
        last = self._process.stderr.read(4000).decode(errors="replace").strip().splitlines()[-1:]
        return f": {last[0]}" if last else f", with status {self._process.wait()}"


class _Timed(Frames):
    """Frames whose reader does not wait longer than the deadline."""

    def __init__(self, read: int, write: int, deadline: float) -> None:
        super().__init__(read, write)
        self._deadline = deadline

    def _wait(self) -> None:
        poll = select.poll()
        poll.register(self.read, select.POLLIN)
        if not poll.poll(max(0.0, self._deadline - time.monotonic()) * 1000):
            raise TimeoutError


class Programs(Sandbox):
    """A sandbox in which one program is run on one input after the other."""

    def __init__(self, source: str, limits: Limits, way: Way) -> None:
        super().__init__({"kind": "programs", "source": source}, limits, way)

    def run(self, stdin: bytes) -> Finished:
        """Run the program on an input; at its end, everything that it has started is ended too."""
        self.send(stdin)
        return Finished(**_renamed(self.receive()))


def _renamed(found: dict[str, Any]) -> dict[str, Any]:
    return {**{key: value for key, value in found.items() if key != "cpu"}, "cpu_seconds": found["cpu"]}


def run(source: str, stdin: bytes = b"", limits: Limits | None = None, isolation: Isolation = "required") -> Finished:
    """Run one untrusted Python program on one input.

    Only the standard library is there, and hash seeds are fixed. The program is started as ``__main__``.

    Raises:
        TimeoutError: the wall clock ran out; everything is ended.
        SandboxError: the sandbox failed.
        UserError: this machine allows none, and ``isolation`` is ``required``.

    >>> run("print(sum(map(int, input().split())))", b"1 2 3").stdout  # doctest: +SKIP
    b'6\\n'
    """
    with Programs(source, limits or Limits(), find_way(isolation)) as sandbox:
        return sandbox.run(stdin)


def find_way(isolation: Isolation = "required") -> Way:
    """How a sandbox is made on this machine, found once per process by making one and trying to break out.

    Raises:
        UserError: in no way, and ``isolation`` is ``required``.
    """
    if isolation == "none":
        return "none"
    reasons = {}
    for way in WAYS:
        reasons[way] = why_not(way)
        if not reasons[way]:
            return way
    raise UserError(
        "this machine allows no sandbox, so programs that nobody has read are not run ("
        + "; ".join(f"{way}: {reason}" for way, reason in reasons.items())
        + "): install bubblewrap and allow user namespaces, or set sandbox: none to run them with the rights of "
        "this user"
    )


@functools.cache
def why_not(way: Way) -> str:
    """Why sandboxes cannot be made in this way here; empty where they can."""
    if sys.platform != "linux":
        return "needs Linux"
    if way == "bwrap" and not shutil.which("bwrap"):
        return "not installed"
    limits = Limits(seconds=20, processes=8)
    with tempfile.NamedTemporaryFile() as file:
        try:
            with Programs(_PROBE, limits, way) as sandbox:
                found = sandbox.run(f"{file.name}\n{__file__}".encode())
        except (OSError, SandboxError, TimeoutError) as error:
            return str(error) or type(error).__name__
    if found.stdout == b"kept\n":
        return ""
    said = (found.stdout or found.stderr).decode(errors="replace").strip().splitlines()
    return said[-1] if said else f"no answer, and status {found.status}"


_PROBE = """
import os, socket, sys, tempfile, threading
def refuse(why):
    print("its promise is broken: " + why)
    sys.exit()
for path in sys.stdin.read().splitlines():
    if os.path.exists(path):
        refuse(path + " can be seen")
if os.path.exists("/proc/1"):
    refuse("/proc can be seen")
for folder in ("/", os.path.dirname(os.__file__)):
    if os.access(folder, os.W_OK):
        refuse(folder + " can be written to")
if [name for _, name in socket.if_nameindex()] not in ([], ["lo"]):
    refuse("there is a network")
if os.getpid() > 9:
    refuse("its processes are those of the machine")
open("/tmp/file", "w").close()
children = 0
try:
    while children < 40:
        if os.fork() == 0:
            os.read(os.pipe()[0], 1)
        children += 1
except OSError:
    print("kept")
else:
    refuse("the number of processes is not limited")
"""


def _command(way: Way, limits: Limits) -> list[str]:
    shown, hidden = _folders()
    python = [PYTHON, "-P", "-s", "-S", "-B", "-X", "utf8"]
    scratch = str(limits.scratch_mb << 20)
    guest = [*python, "-c", START, way, str(os.getpid()), scratch, os.pathsep.join(shown), os.pathsep.join(hidden)]
    return [*_bwrap(shown, hidden, scratch), *guest] if way == "bwrap" else guest


def _bwrap(shown: list[str], hidden: list[str], scratch: str) -> list[str]:
    options = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--unshare-user", "--disable-userns"]
    options += ["--uid", "65534", "--gid", "65534", "--cap-drop", "ALL"]
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
    """The code that runs inside, compiled: it goes through the pipe, and nothing of Outrider is on the inner disk."""
    modules: list[tuple[str, CodeType]] = []
    for name in (f"outrider.verify.inside{end}" for end in GUEST):
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert isinstance(spec.loader, InspectLoader)
        code = spec.loader.get_code(name)
        assert code is not None
        modules.append((name, code))
    return marshal.dumps(modules)


@functools.cache
def _folders() -> tuple[list[str], list[str]]:
    """What of the disk is shown: C libraries, the interpreter, its standard library; and what is hidden in them."""
    libraries = [os.path.join(sys.base_prefix, name) for name in ("lib", "lib64")]
    shown: list[str] = []
    for path in sorted({*SYSTEM, PYTHON, *libraries, os.path.dirname(os.__file__)}, key=len):
        if os.path.exists(path) and not any(path.startswith(other + "/") for other in shown):
            shown.append(path)
    packages = [*site.getsitepackages([sys.base_prefix]), "/usr/lib/python3/dist-packages"]
    hidden = [p for p in packages if os.path.isdir(p) and any(p.startswith(other + "/") for other in shown)]
    return shown, sorted(set(hidden))
