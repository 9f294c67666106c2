"""Standard output and standard error where they are not what they should be: closed, full, or without a reader,
as in ``outrider recipes | head``."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import sys
from collections.abc import Sequence
from typing import TextIO

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
UNREAD = 141
"""Exit status of a program that SIGPIPE ends, as a shell sees it."""


def open_closed() -> None:
    """Where the shell has closed one (``>&-``), what is written to it goes nowhere."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 - for good
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115


def let_go_of_unread() -> bool:
    """Whether the reader of standard output or standard error is gone. What is still to be written goes nowhere then,
    so that the interpreter's own last words are none."""
    gone = [stream for stream in (sys.stdout, sys.stderr) if _unread(stream)]
    _let_go(gone)
    return bool(gone)


def let_go_of_full() -> bool:
    """Whether standard output takes no more because its disk is full. What is still to be written goes nowhere then."""
    try:
        os.write(sys.stdout.fileno(), b"\n")  # what failed is forgotten; a stream that takes a line was not at fault
    except (OSError, ValueError):
        _let_go([sys.stdout])
        return True
    return False


def _let_go(streams: Sequence[TextIO]) -> None:
    for stream in streams:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _unread(stream: TextIO | None) -> bool:
    """Whether a stream is a pipe or a socket whose other end is closed."""
    with contextlib.suppress(AttributeError, OSError, ValueError):  # no stream, no descriptor, no poll
        poll = select.poll()
        poll.register(stream.fileno(), 0)  # type: ignore[union-attr]
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
    return False
