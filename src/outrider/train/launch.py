"""Starting the processes of a run: on a CPU one per core, each with one thread, pinned.

Two such processes are faster and steadier than one process with two threads. A launcher's own ranks (torchrun) are
used as they are.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Callable
from typing import Any

import torch

from outrider.errors import UserError
from outrider.train.ranks import Ranks

RankMain = Callable[..., int]
_LEAVE_SECONDS = 30


def launch(wanted: int, main: RankMain, *arguments: Any) -> int:
    """Call ``main(ranks, *arguments)`` in every process and return what rank 0 returned.

    Rank 0 is this process. ``wanted`` 0 means one process per core on a CPU and one process otherwise. ``main`` and the
    arguments are pickled for the others.
    """
    if "WORLD_SIZE" in os.environ:
        ranks = Ranks.join()
        try:
            return _call(ranks, main, arguments)
        finally:
            ranks.leave()
    cores = _cores()
    size = wanted or (1 if torch.cuda.is_available() else len(cores))
    if size == 1:
        return _call(Ranks(), main, arguments)
    pins = cores if size == len(cores) else []
    with tempfile.TemporaryDirectory() as folder:
        meeting = f"file://{folder}/ranks"
        context = multiprocessing.get_context("spawn")
        others = [
            context.Process(target=_other, args=(rank, size, meeting, pins, main, arguments), daemon=True)
            for rank in range(1, size)
        ]
        for process in others:
            process.start()
        with _Pinned(pins, 0):
            ranks = Ranks.meet(0, size, meeting)
            try:
                result = _call(ranks, main, arguments)
                for process in others:
                    process.join(timeout=_LEAVE_SECONDS)
            finally:
                for process in others:  # after an error here, they wait for a message that will not come
                    process.kill()
                ranks.leave()
    return result


def _other(rank: int, size: int, meeting: str, pins: list[int], main: RankMain, arguments: tuple[Any, ...]) -> None:
    with _Pinned(pins, rank):
        try:
            ranks = Ranks.meet(rank, size, meeting)
            _call(ranks, main, arguments)
            ranks.leave()
        except (UserError, KeyboardInterrupt):
            raise SystemExit(1) from None  # rank 0 has the same error and says it


def _call(ranks: Ranks, main: RankMain, arguments: tuple[Any, ...]) -> int:
    threads = torch.get_num_threads()
    if not torch.cuda.is_available():
        torch.set_num_threads(1)
    try:
        return main(ranks, *arguments)
    finally:
        torch.set_num_threads(threads)


class _Pinned:
    """This process on one core, for as long as the block runs; without cores to choose from, nothing."""

    def __init__(self, cores: list[int], rank: int) -> None:
        self._cores, self._rank = cores, rank

    def __enter__(self) -> None:
        if self._cores:
            os.sched_setaffinity(0, {self._cores[self._rank]})

    def __exit__(self, *exception: object) -> None:
        if self._cores:
            os.sched_setaffinity(0, set(self._cores))


def _cores() -> list[int]:
    """The cores that this process may use; without affinity on this system, as many as there are, unpinned."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
