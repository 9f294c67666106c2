"""Starts the processes of a run. By default, a run on a CPU has one process per core. Each process uses one thread and
is pinned to its core.

If another launcher (such as torchrun) has already started ranks, the run uses these ranks.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import platform
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from outrider.errors import UserError
from outrider.interrupts import STOPS, Terminated, how_it_ended, ignoring_interrupts
from outrider.processes.cores import usable_cores
from outrider.processes.ranks import LOST, RankLostError, Ranks
from outrider.processes.warm import warm_processes, without_main

RankMain = Callable[..., int]
_LEAVE_SECONDS = 30
_NOTICE_SECONDS = 30.0  # maximum seconds until a process that is not blocked notices another rank's death
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # parameters of mallopt(3)


def launch(wanted: int, main: RankMain, *arguments: Any, hint: str = "start it again") -> int:
    """Call ``main(ranks, *arguments)`` in every process, and return rank 0's result.

    This process is rank 0. ``wanted`` is the number of processes. With 0, there is one process per core, or only one
    process on a machine with a GPU. ``main`` and the arguments are pickled for all other ranks.

    Raises:
        RankLostError: a process died. The error message ends with ``hint``.
    """
    try:
        if "WORLD_SIZE" in os.environ:
            return _left(Ranks.join(), main, arguments)
        cores = usable_cores()
        # two processes with one thread each are faster and steadier than one process with two threads
        size = wanted or (1 if torch.cuda.is_available() else len(cores))
        if size == 1:
            return _left(Ranks(), main, arguments)
        pins = cores if size == len(cores) and hasattr(os, "sched_setaffinity") else []
        return _launch(size, pins, main, arguments, hint)
    except RankLostError as error:
        raise RankLostError(f"{error}; {hint}") from error


def _launch(size: int, pins: list[int], main: RankMain, arguments: tuple[Any, ...], hint: str) -> int:
    """Run rank 0 in this process and all other ranks in child processes. The child processes end when this process
    ends."""
    with ignoring_interrupts():  # rank 0 handles Ctrl-C and SIGTERM, and ends all other ranks
        context = warm_processes(main.__module__)
    with tempfile.TemporaryDirectory() as folder:
        meeting = f"file://{folder}/ranks"
        others = [
            context.Process(
                target=_other, args=(rank, size, meeting, pins, hint, dict(os.environ), main, arguments), daemon=True
            )
            for rank in range(1, size)
        ]

        one_asks = threading.Lock()  # if two threads read an exit code, only one gets it

        def ended() -> dict[int, int]:
            with one_asks:
                return {rank: p.exitcode for rank, p in enumerate(others, 1) if p.exitcode is not None}

        def how() -> dict[int, str]:
            codes = {rank: code for rank, code in ended().items() if code != LOST}
            return {rank: _said(Path(folder), rank) or how_it_ended(code) for rank, code in codes.items()}

        try:
            _start(others, context.get_start_method() == "spawn")
            with _Pinned(pins, 0):
                _await(size - 1, ended, Path(folder))
                ranks = Ranks.meet(0, size, meeting, how)
                ranks.cores = len(pins) or ranks.cores
                try:
                    with _watched(ranks, others, hint):
                        result = _call(ranks, main, arguments)
                    for process in others:
                        process.join(timeout=_LEAVE_SECONDS)
                finally:
                    _kill(others)  # after an error here, they would wait forever for a message
                    ranks.leave()
        finally:
            _kill(others)
    return result


@contextmanager
def _watched(ranks: Ranks, others: Sequence[BaseProcess], hint: str) -> Iterator[None]:
    """Context manager that ends this process (rank 0) with a message if this process waits for a dead rank.

    Gloo notices the death of a rank. NCCL does not always notice a rank's death, and would wait for two hours
    (``ranks._WAIT``). This process ends without saving, because no state can be saved while devices wait for each
    other.
    """
    over = threading.Event()

    def watch() -> None:
        since: float | None = None
        while not over.wait(1.0):
            lost = ranks.lost() if ranks.waits else ""
            since = (since or time.monotonic()) if lost else None
            if since is not None and time.monotonic() - since > _NOTICE_SECONDS:
                sys.stderr.write(f"outrider: {lost}; {hint}\n")
                sys.stderr.flush()
                _kill(others)
                os._exit(2)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _said(folder: Path, rank: int) -> str:
    """Return the message in which a rank explained why it ended; empty if the rank could not write a message."""
    try:
        return f"ended: {(folder / f'said-{rank}').read_text()}"
    except OSError:
        return ""


def _start(processes: Sequence[BaseProcess], ignore_signals: bool) -> None:
    """Start the processes. If processes are forked from a fork server that is still importing modules, starting takes
    seconds.

    ``ignore_signals`` must be False for a fork server (multiprocessing's ``forkserver``). Otherwise, all children of
    the server would inherit the ignored signals.
    """
    try:
        with ignoring_interrupts() if ignore_signals else nullcontext(), without_main():
            for process in processes:
                process.start()
    except EOFError as error:
        raise RankLostError("the process that the ranks are forked from died before it was ready") from error


def _kill(processes: Sequence[BaseProcess]) -> None:
    for process in processes:
        if process.pid is not None:
            process.kill()


def _other(
    rank: int,
    size: int,
    meeting: str,
    pins: list[int],
    hint: str,
    environment: dict[str, str],
    main: RankMain,
    arguments: tuple[Any, ...],
) -> None:
    for number in STOPS:  # the fork server may be older than this run and not ignore signals
        signal.signal(number, signal.SIG_IGN)
    os.environ.update(environment)  # an older fork server has older environment variables
    os.environ["LOCAL_RANK"] = str(rank)  # the GPU of this rank
    if not Path(meeting.removeprefix("file://")).parent.exists():
        os._exit(LOST)  # rank 0 was interrupted during the server's imports, and has reported it
    rank_0 = threading.Thread(target=_end_with_rank_0, args=(rank, hint), daemon=True)
    rank_0.start()
    folder = Path(meeting.removeprefix("file://")).parent
    with _Pinned(pins, rank):
        try:
            (folder / f"arrived-{rank}").touch()
            ranks = Ranks.meet(rank, size, meeting)
            _call(ranks, main, arguments)
            ranks.leave()
        except RankLostError:
            rank_0.join(_LEAVE_SECONDS)  # unless rank 0 is lost, it names the lost rank and kills this process
            os._exit(LOST)
        except UserError as error:
            (folder / f"said-{rank}").write_text(str(error))
            raise SystemExit(1) from None  # rank 0 prints the error, since it usually has the same error
        except (KeyboardInterrupt, Terminated):
            raise SystemExit(1) from None
        except Exception as error:
            (folder / f"said-{rank}").write_text(f"{type(error).__name__}: {error}")
            raise


def _end_with_rank_0(rank: int, hint: str) -> None:
    """End this process with a message if rank 0 has died, since rank 0 cannot report its own death."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    if rank == 1:
        sys.stderr.write(f"outrider: rank 0 died; {hint}\n")
        sys.stderr.flush()
    os._exit(LOST)


def _await(count: int, ended: Callable[[], dict[int, int]], folder: Path) -> None:
    """Wait until all other processes have started."""
    # if a process dies before it joins, gloo would wait two hours for it (ranks._WAIT)
    while len(list(folder.glob("arrived-*"))) < count:
        for rank, code in ended().items():
            if code < 0:
                raise RankLostError(f"rank {rank} could not join: it {how_it_ended(code)}")
            raise RuntimeError(f"rank {rank} ended with exit code {code} before it could join")
        time.sleep(0.01)


def _left(ranks: Ranks, main: RankMain, arguments: tuple[Any, ...]) -> int:
    try:
        return _call(ranks, main, arguments)
    finally:
        ranks.leave()


def _call(ranks: Ranks, main: RankMain, arguments: tuple[Any, ...]) -> int:
    with threads_of_a_rank(), ranks.naming_the_lost():
        ranks.gather(list)  # otherwise, a rank could end while others still connect to it
        return main(ranks, *arguments)


@contextmanager
def threads_of_a_rank() -> Iterator[None]:
    """Context manager that limits a rank to one thread if there is no GPU. The number of threads changes rounding
    errors."""
    threads = torch.get_num_threads()
    if not torch.cuda.is_available():
        torch.set_num_threads(1)
        _keep_freed_memory()
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _keep_freed_memory() -> None:
    """Let glibc keep the freed buffers of a forward pass for the next pass. Other C libraries are not affected."""
    # buffers that were returned to the kernel cause page faults on reuse, which took 1/15 of the learner's time
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        for parameter in (_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD):
            libc.mallopt(parameter, 2**30)


class _Pinned:
    """Context manager that pins this process to ``cores[rank]``. If ``cores`` is empty, the process is not pinned."""

    def __init__(self, cores: list[int], rank: int) -> None:
        self._cores, self._rank = cores, rank

    def __enter__(self) -> None:
        if self._cores:
            self._before = os.sched_getaffinity(0)
            os.sched_setaffinity(0, {self._cores[self._rank]})

    def __exit__(self, *exception: object) -> None:
        if self._cores:
            os.sched_setaffinity(0, self._before)
