"""Processes that have PyTorch when they begin."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, SpawnContext

_LONGEST = 70  # bytes of a folder in which multiprocessing's names for a socket have room: 103 less 32


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
