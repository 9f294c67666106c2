"""Processes that another launcher, such as torchrun, has started. Imports no torch."""

from __future__ import annotations

import os

from outrider.errors import UserError


def started_by_another(wanted: int) -> int | None:
    """How many processes another launcher has started for this run; None where none did.

    Args:
        wanted: ``train.ranks``; 0 takes any number.

    Raises:
        UserError: it has started another number than is wanted.
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
