"""When Ctrl-C and SIGTERM are heard: not by processes that another one ends, and not where a run cannot be left."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPS = (signal.SIGINT, signal.SIGTERM)
TERMINATED = 143
"""Exit status of a program that SIGTERM ends, as a shell sees it."""


SAME = "the same command goes on where it was"


class Terminated(BaseException):
    """SIGTERM, by which batch systems warn before they kill; its text is what the user is told."""


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM in this block raises :class:`Terminated`, unless somebody else handles it already."""
    if not _in_main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: the rest is ending
        raise Terminated("ended by SIGTERM")

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Processes started here ignore Ctrl-C and SIGTERM, from their first instruction on; this one hears them again
    afterwards."""
    if not _in_main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in STOPS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Ctrl-C and SIGTERM in this block are acted on at its end.

    ``torch.save`` writes through a Python callback of C++, where an interrupt is printed and lost, or comes out as a
    ``RuntimeError`` about the file.
    """
    if not _in_main_thread():
        yield
        return
    heard: list[tuple[int, FrameType | None]] = []
    before = {n: signal.signal(n, lambda number, frame: heard.append((number, frame))) for n in STOPS}
    try:
        yield
    finally:
        for stop, handler in before.items():
            signal.signal(stop, handler)
        for number, frame in heard:
            if callable(handler := before[signal.Signals(number)]):
                handler(number, frame)


class Leave:
    """Where a run may be left when SIGTERM comes, so that it can be saved as it was after its last step.

    Inside :meth:`heard` the signal is noted; inside :meth:`open` it raises :class:`Terminated`, also where it came
    before. Without :meth:`heard`, as in a process that another one ends, nothing ever happens.

    Attributes:
        asked: the signal has come.
    """

    def __init__(self) -> None:
        self.asked = False
        self._open = False

    @contextmanager
    def heard(self) -> Iterator[None]:
        """SIGTERM is noted in this block."""
        if not _in_main_thread():
            yield
            return
        before = signal.signal(signal.SIGTERM, self._hear)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)

    @contextmanager
    def open(self) -> Iterator[None]:
        """The run may be left in this block.

        Raises:
            Terminated: it shall be left.
        """
        self._open = True
        try:
            self._check()
            yield
        finally:
            self._open = False
        self._check()  # an exception in a callback of C is printed and lost

    def _check(self) -> None:
        if self.asked:
            raise Terminated

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        if self._open:
            self._open = False
            raise Terminated


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
