"""Handles cases in which stdout or stderr is closed, is a file on a full disk, or is no longer read (``outrider recipes
| head``)."""

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
"""Exit status that shells report for a program that SIGPIPE has ended."""


def open_closed() -> None:
    """Replace a stream that the shell has closed (``>&-``) with the null device."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 - never closed
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115


def let_go_of_unread() -> bool:
    """Return whether the process that reads stdout or stderr has closed the pipe.

    If so, the remaining output goes to the null device, so that the interpreter prints no error at exit.
    """
    gone = [stream for stream in (sys.stdout, sys.stderr) if _unread(stream)]
    _let_go(gone)
    return bool(gone)


def let_go_of_full() -> bool:
    """Return whether stdout is a file on a full disk. If so, the remaining output goes to the null device."""
    try:
        os.write(sys.stdout.fileno(), b"\n")  # if this succeeds, the disk was not full
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
    """Return whether a stream is a pipe or a socket whose other end is closed."""
    with contextlib.suppress(AttributeError, OSError, ValueError):  # no stream, no descriptor, no poll
        poll = select.poll()
        poll.register(stream.fileno(), 0)  # type: ignore[union-attr]
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
    return False
