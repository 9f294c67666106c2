"""The inputs that a loss needs from the learner, declared before the first step."""

from __future__ import annotations

from typing import NamedTuple


class LossNeeds(NamedTuple):
    """The inputs of a loss, and the names of its diagnostics.

    Attributes:
        reference: whether the loss needs the reference policy.
        reset_every: number of steps after which the reference is reset to the policy; None if the reference is never
            reset.
        all_rows: whether rows with zero advantage are trained on too.
        top: number of likeliest tokens per position that the loss reads.
        diagnostics: names of the diagnostics that the loss returns for each micro-batch.
    """

    reference: bool = False
    reset_every: int | None = None
    all_rows: bool = False
    top: int = 0
    diagnostics: tuple[str, ...] = ()
