"""When Ctrl-C is heard: not by processes that another one ends, and not in the middle of a save."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Processes started here ignore Ctrl-C, from their first instruction on; this one hears it again afterwards."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Ctrl-C in this block is acted on at its end.

    ``torch.save`` writes through a Python callback of C++, where an interrupt is printed and lost, or comes out as a
    ``RuntimeError`` about the file.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[tuple[int, FrameType | None]] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if heard and callable(before):
            before(*heard[0])
