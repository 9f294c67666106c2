"""What a loss needs from a learner, declared before the first step."""

from __future__ import annotations

from typing import NamedTuple


class LossNeeds(NamedTuple):
    """What a loss reads, and the names of what it returns.

    Attributes:
        reference: whether it compares with the reference policy.
        reset_every: steps after which the policy becomes the reference; None: never.
        all_rows: whether rows without advantage are trained on too.
        top: how many of the likeliest tokens at each place it reads.
        diagnostics: the names of all sums that a call returns.
    """

    reference: bool = False
    reset_every: int | None = None
    all_rows: bool = False
    top: int = 0
    diagnostics: tuple[str, ...] = ()
