"""Detects whether another launcher, such as torchrun, has started this process. Importing this module does not import
torch."""

from __future__ import annotations

import os

from outrider.errors import UserError


def started_by_another(wanted: int) -> int | None:
    """Return the number of processes that another launcher has started for this run; None if no other launcher started
    this process.

    Args:
        wanted: the option ``train.ranks``; 0 accepts any number of processes.

    Raises:
        UserError: the number of processes differs from ``wanted``.
    """
    if "WORLD_SIZE" not in os.environ:
        return None
    started = int(os.environ["WORLD_SIZE"])
    if wanted not in (0, started):
        raise UserError(
            f"train.ranks is {wanted}, but torchrun, or another launcher, has started {started} processes; "
            f"leave train.ranks out, or start {wanted}"
        )
    return started
