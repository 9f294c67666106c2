"""Processes that have PyTorch when they begin. Imports no torch."""

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
_LONGEST = 70  # bytes of a folder in which multiprocessing's names for a socket have room: 103 less 32


_MAIN = threading.Lock()


def warm_processes(*modules: str) -> ForkServerContext | SpawnContext:
    """Processes forked from one that has imported these modules: however many they are, the imports are paid for once.

    A fork of this process would copy torch's threads in an unusable state; that one has only imported torch, and has
    none. It hears or ignores signals as this process does now. It listens on a socket among the temporary files; where
    their folder has too long a name for that, every process imports for itself.
    """
    if len(os.fsencode(tempfile.gettempdir())) > _LONGEST:
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(modules))
    forkserver.ensure_running()
    return context


def warm_ahead(module: str, ranks: int) -> None:
    """Have a module of a run imported for its other processes while this one imports it too: 5 of 11 seconds.

    Args:
        ranks: ``train.ranks``; 0 means one per core, or one if there is a GPU.
    """
    one = len(usable_cores()) == 1 or any(Path(gpu).exists() for gpu in _GPUS) if ranks == 0 else ranks == 1
    if not one and "WORLD_SIZE" not in os.environ:
        with ignoring_interrupts():  # as launch has it
            warm_processes(module)


@contextmanager
def without_main() -> Iterator[None]:
    """A block in which new processes do not import the main script, which would run it again in each of them.

    multiprocessing has every new process import it, where it may hold what the process is to call. Here all of that is
    in modules, so a script needs no ``if __name__ == "__main__"``.
    """
    with _MAIN:  # two trainings in two threads would put the empty one back
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main
