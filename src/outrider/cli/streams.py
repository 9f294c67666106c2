"""Output that nobody reads any more, as in ``outrider recipes | head``."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from typing import TextIO

UNREAD = 141
"""Exit status of a program that SIGPIPE ends, as a shell sees it."""


def let_go_of_unread() -> bool:
    """Whether the reader of standard output or standard error is gone. What is still to be written goes nowhere then,
    so that the interpreter's own last words are none."""
    gone = [stream for stream in (sys.stdout, sys.stderr) if _unread(stream)]
    if gone:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in gone:
            os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    return bool(gone)


def _unread(stream: TextIO | None) -> bool:
    """Whether a stream is a pipe or a socket whose other end is closed."""
    with contextlib.suppress(AttributeError, OSError, ValueError):  # no stream, no descriptor, no poll
        poll = select.poll()
        poll.register(stream.fileno(), 0)  # type: ignore[union-attr]
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
    return False
