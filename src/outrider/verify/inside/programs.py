"""Runs a program once per input, with all runs in the same sandbox. The program reads standard input and writes
standard output."""

from __future__ import annotations

import os
import sys

from outrider.verify.inside.child import end_of, fork, kill_the_rest, used_up
from outrider.verify.inside.plain import Frames, Ignoring, dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SHOWN = 2000  # maximum bytes of standard error that are reported, from its end


def serve(channel: Frames, job: dict[str, Any]) -> str:
    """Run ``job["source"]`` once for each input from the channel, and send back each exit status and output.

    For each input, the function forks a process. In the forked process, the function returns the program's source,
    which :func:`run_as_main` then executes.
    """
    limits = job["limits"]
    while True:
        # use files in memory: unlike pipes they cannot fill up, and the limit on file sizes also limits the output
        fds = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
        given = memoryview(loads(channel.receive(1 << 62)))
        while given:
            given = given[os.write(fds[0], given) :]
        os.lseek(fds[0], 0, os.SEEK_SET)
        pid = fork(limits, fds)
        if pid == 0:
            source: str = job["source"]
            return source
        status, usage = end_of(pid)
        # otherwise, descendants of the program could still write to the output or read the next input
        kill_the_rest()
        cpu = usage.ru_utime + usage.ru_stime
        size = os.fstat(fds[1]).st_size
        result = {
            "status": os.waitstatus_to_exitcode(status),
            "used_up": used_up(status, cpu, limits),
            "cpu": cpu,
            "full": size >= limits["file"],
            "stdout": os.pread(fds[1], min(size, limits["file"]), 0),
            "stderr": os.pread(fds[2], SHOWN, max(0, os.fstat(fds[2]).st_size - SHOWN)),
        }
        for fd in fds:
            os.close(fd)
        channel.send(dumps(result))


def run_as_main(source: str) -> None:
    """Run the program in this process as if Python had been started with the program's file."""
    prepare_interpreter()
    module = module_of(source, "__main__")
    exec(compiled(source, module.__file__), module.__dict__)


def module_of(source: str, name: str) -> Any:
    """Create a program's module. The program's source is written to a file, since some programs read their own source
    file."""
    module: Any = type(sys)(name)
    module.__file__ = os.path.join(os.getcwd(), "solution.py")
    with Ignoring(OSError):  # the disk may be full, or an earlier run may have created a folder with this name
        with Ignoring(FileNotFoundError):
            os.unlink(module.__file__)
        with open(module.__file__, "x", encoding="utf-8", errors="surrogatepass") as file:
            file.write(source)
    sys.modules[name] = module
    return module


def compiled(source: str, file: str, features: int = 0) -> Any:
    """Compile source code, without letting it inherit the ``__future__`` imports of this module."""
    return compile(source, file, "exec", features, dont_inherit=True)


def prepare_interpreter() -> None:
    """Open the standard streams on descriptors 0 to 2, and define ``exit`` and ``quit`` as the module ``site`` does."""
    import builtins

    for name, fd, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        stream = open(fd, mode, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115 - for good
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.argv = ["solution.py"]
    with Ignoring(ImportError):
        from _sitebuiltins import Quitter

        builtins.exit = Quitter("exit", "Ctrl-D (i.e. EOF)")
        builtins.quit = Quitter("quit", "Ctrl-D (i.e. EOF)")
