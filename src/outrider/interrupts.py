"""When Ctrl-C and SIGTERM act: not on processes that another one ends, and not in the middle of an update."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPS = (signal.SIGINT, signal.SIGTERM)
TERMINATED = 143
"""Exit status of a program that SIGTERM ends, as a shell sees it."""


SAME_COMMAND = "the same command goes on where it was"


class Terminated(BaseException):
    """SIGTERM, with which batch systems warn before they kill; its text is the message for the user."""


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
def ignoring_interrupts() -> Iterator[None]:
    """Processes started in this block ignore Ctrl-C and SIGTERM; this one handles them again afterwards."""
    if not _in_main_thread():
        yield
        return
    # a child inherits what is ignored, so no moment is left in which a signal could end it
    before = {number: signal.signal(number, signal.SIG_IGN) for number in STOPS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Ctrl-C and SIGTERM in this block act at its end."""
    # Python that C++ has called may not be interrupted: torch.save's callback prints and loses it, or makes of it a
    # RuntimeError about the file, and what torch's import calls aborts the process
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


class SafeStop:
    """Where SIGTERM may end a run, so that it can be saved as it was after its last step.

    Inside :meth:`handled` the signal is recorded; inside :meth:`allowed` it raises :class:`Terminated`, also where it
    came before. Without :meth:`handled`, as in a process that another one ends, nothing happens.

    Attributes:
        requested: the signal has come.
    """

    def __init__(self) -> None:
        self.requested = False
        self._allowed = False

    @contextmanager
    def handled(self) -> Iterator[None]:
        """SIGTERM is recorded in this block."""
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
        """The run may stop in this block.

        Raises:
            Terminated: the signal has come.
        """
        self._allowed = True
        try:
            self._check()
            yield
        finally:
            self._allowed = False
        self._check()  # the handler may have raised in a callback of C, where an exception is printed and lost

    def _check(self) -> None:
        if self.requested:
            raise Terminated

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        if self._allowed:
            self._allowed = False  # a second signal must not interrupt the saving
            raise Terminated


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
