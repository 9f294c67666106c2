"""Controls where Ctrl-C and SIGTERM take effect. Child processes ignore both signals, and some blocks of code delay
them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPS = (signal.SIGINT, signal.SIGTERM)
TERMINATED = 143
"""Exit status that shells report for a program that SIGTERM has ended."""


SAME_COMMAND = "run the same command again to continue"


class Terminated(BaseException):
    """Raised after SIGTERM, which batch systems send before they kill a job. Its message is for the user."""


@contextmanager
def terminable() -> Iterator[None]:
    """Context manager in which SIGTERM raises :class:`Terminated`, unless another handler is already set."""
    if not _in_main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # ignore further signals, since the process is ending
        raise Terminated("ended by SIGTERM")

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def ignoring_interrupts() -> Iterator[None]:
    """Context manager in which new child processes ignore Ctrl-C and SIGTERM. This process handles both afterwards."""
    if not _in_main_thread():
        yield
        return
    # child processes inherit ignored signals, so Ctrl-C and SIGTERM never end them
    before = {number: signal.signal(number, signal.SIG_IGN) for number in STOPS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Context manager that delays Ctrl-C and SIGTERM until the end of its block."""
    # Python code that C++ calls must not be interrupted. The callback of torch.save prints and loses the interrupt, or
    # converts it to a RuntimeError about the file. An interrupt during the import of torch aborts the process.
    if not _in_main_thread():
        yield
        return
    pending: list[tuple[int, FrameType | None]] = []
    before = {n: signal.signal(n, lambda number, frame: pending.append((number, frame))) for n in STOPS}
    try:
        yield
    finally:
        for stop, handler in before.items():
            signal.signal(stop, handler)
        for number, frame in pending:
            if callable(handler := before[signal.Signals(number)]):
                handler(number, frame)


def end_with(parent: int) -> None:
    """Wait until the parent process (id ``parent``) has ended, then kill the current process and its process group.

    Call this function in a separate thread, so that the current process ends even if its main thread is busy. The
    current process must be the leader of its process group.
    """
    while os.getppid() == parent:
        time.sleep(1.0)
    os.killpg(0, signal.SIGKILL)


def how_it_ended(code: int) -> str:
    """Return a description of a process's exit code.

    >>> how_it_ended(-9), how_it_ended(1)
    ('was killed by signal 9, as when memory runs out', 'ended with status 1')
    """
    if code >= 0:
        return f"ended with status {code}"
    return f"was killed by signal {-code}" + (", as when memory runs out" if code == -9 else "")


class SafeStop:
    """Lets SIGTERM end a run only in certain blocks, so that the state after the last step can be saved.

    In a :meth:`handled` block, SIGTERM is only recorded. In an :meth:`allowed` block, SIGTERM raises
    :class:`Terminated`, even if it was received before the block. In child processes, this class has no effect: they do
    not enter :meth:`handled`, since their parent ends them.

    Attributes:
        requested: whether SIGTERM was received.
    """

    def __init__(self) -> None:
        self.requested = False
        self._allowed = False

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Context manager in which SIGTERM does not end the process, but sets ``requested``."""
        if not _in_main_thread():
            yield
            return
        before = signal.signal(signal.SIGTERM, self._on_signal)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Context manager in which SIGTERM stops the run, even if the signal was received before the block.

        Raises:
            Terminated: SIGTERM was received.
        """
        self._allowed = True
        try:
            self._check()
            yield
        finally:
            self._allowed = False
        self._check()  # again, since an exception from the handler in a C callback is printed and lost

    def _check(self) -> None:
        if self.requested:
            raise Terminated

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        if self._allowed:
            self._allowed = False  # a second signal must not interrupt the save
            raise Terminated


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
