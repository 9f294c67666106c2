"""The worker's side of :mod:`outrider.verify.pool`: ``python -m outrider.verify.worker CHANNEL PARENT MEMORY_GB``.

A process of its own, not a fork: it holds no lock, no thread and no torch of its parent.
"""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import resource
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

from outrider.errors import UserError
from outrider.record import Outcome, Problem, Verdict


def judge(verify: Callable[[Problem, str, bool], Verdict], item: tuple[Problem, str, bool]) -> tuple[Verdict, bool]:
    """One verdict with its wall time, and whether this process is still fit for the next one.

    Whatever ``verify`` raises, or returns instead of a verdict, is ``ERROR``: unscorable, never zero. The fields are
    made plain, so that they can be sent to the parent and written to disk.
    """
    start = time.perf_counter()
    fit = True
    try:
        found = verify(*item)
        if not isinstance(found, Verdict):
            raise TypeError(f"the verifier returned {type(found).__name__}, not a Verdict")
        outcome, score, answer, detail = found.outcome, float(found.score), found.answer, found.detail
    except BaseException as error:  # noqa: BLE001 - third-party code may even call sys.exit; that too is its verdict
        error.__traceback__ = None  # after a MemoryError its frames would hold all the memory
        fit = not isinstance(error, MemoryError)
        outcome, score, answer, detail = Outcome.ERROR, math.nan, "", f"{type(error).__name__}: {error}"[:500]
    return Verdict(Outcome(outcome), score, time.perf_counter() - start, _plain(answer), _plain(detail)), fit


def serve(channel: Connection, memory_gb: float) -> None:
    """Receive the verifier, then lists of items; send each verdict as soon as it is there."""
    try:
        verify = pickle.loads(channel.recv_bytes())
    except BaseException as error:  # noqa: BLE001 - the parent raises it
        channel.send((UserError, str(error)) if isinstance(error, UserError) else (RuntimeError, repr(error)))
        return
    _limit_memory(memory_gb)
    channel.send(None)
    while True:
        for item in channel.recv():
            verdict, fit = judge(verify, item)
            channel.send((verdict, fit))
            if not fit:
                return


def _plain(text: str) -> str:
    """A plain string without lone surrogates, which UTF-8 cannot hold."""
    return str(text).encode("utf-8", "replace").decode("utf-8")


def _limit_memory(gigabytes: float) -> None:
    """Let the address space grow by so much beyond what start-up took. Other systems than Linux do not enforce it."""
    if sys.platform == "linux":
        with open("/proc/self/statm") as statm:
            pages = int(statm.read().split()[0])
        limit = pages * resource.getpagesize() + int(gigabytes * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _end_with(parent: int) -> None:
    """Exit once the parent is gone, even in the middle of a verdict that would never come."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with, args=(int(sys.argv[2]),), daemon=True).start()
    with contextlib.suppress(EOFError, ConnectionError):  # the parent has closed the channel: nothing is left to judge
        serve(Connection(int(sys.argv[1])), float(sys.argv[3]))
    os._exit(0)  # skips the exit handlers of third-party modules, which may hang
