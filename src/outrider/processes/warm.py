"""Starts processes in which PyTorch is already imported. Importing this module does not import torch."""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, SpawnContext
from pathlib import Path
from types import ModuleType

from outrider.interrupts import ignoring_interrupts
from outrider.processes.cores import usable_cores

_GPUS = ("/dev/nvidiactl", "/dev/kfd")
_LONGEST = 70  # maximum bytes of a folder's path for multiprocessing's sockets: 103 minus 32


_MAIN = threading.Lock()


def warm_processes(*modules: str) -> ForkServerContext | SpawnContext:
    """Return a multiprocessing context that forks processes from a server, which imports ``modules`` only once.

    A fork of this process would copy torch's threads in an unusable state. The server, in contrast, only imports the
    modules and has no threads. The server inherits this process's signal handlers, and listens on a socket in the
    temporary folder. If that folder's path is too long for a socket, every process imports the modules itself.
    """
    if len(os.fsencode(tempfile.gettempdir())) > _LONGEST:
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(modules))
    forkserver.ensure_running()
    return context


def warm_ahead(module: str, ranks: int) -> None:
    """Start importing ``module`` for a run's other processes, while this process imports the module too.

    In parallel, both imports take 6 seconds; one after another, they take 11 seconds.

    Args:
        ranks: ``train.ranks``; 0 means one rank per core, or one rank on a machine with a GPU.
    """
    one = len(usable_cores()) == 1 or any(Path(gpu).exists() for gpu in _GPUS) if ranks == 0 else ranks == 1
    if not one and "WORLD_SIZE" not in os.environ:
        with ignoring_interrupts():  # as in launch
            warm_processes(module)


@contextmanager
def without_main() -> Iterator[None]:
    """Context manager in which new processes do not import the main script.

    By default, multiprocessing imports the main script in every new process, since the script may define the function
    to call. This import runs the script again, so scripts usually need the guard ``if __name__ == "__main__"``.
    Outrider's processes call functions of Outrider's modules. Therefore, the import is skipped, and the guard is not
    needed.
    """
    with _MAIN:  # otherwise, two trainings in two threads could restore the empty module
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main
