"""Saturation: success has stopped rising, and tokens are still spent."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from outrider.report.content import Finding
from outrider.report.data import RunData
from outrider.report.findings.base import MIN_STEPS, Floats, Z, percent
from outrider.report.findings.view import success_by_step

NEEDS = f"verdicts of at least {MIN_STEPS} training steps"

FLAT = 0.25  # of the earlier rise per token: a token now buys less than a quarter of what it bought
SPENT = 0.25  # of the run's tokens; less than a quarter is a pause, not a plateau


class Bend(NamedTuple):
    """A rise that changes its slope once.

    Attributes:
        at: where, as a share of the tokens.
        early, late: success per run's worth of tokens, before and after.
        early_error, late_error: standard errors.
        level: the fitted success where it bends.
    """

    at: float
    early: float
    late: float
    early_error: float
    late_error: float
    level: float


def find(run: RunData) -> Finding | None:
    """A line with one bend through success against generated tokens: it rose before, and hardly rises after.

    Raises:
        Lacking: see ``NEEDS``.
    """
    rows = success_by_step(run)
    tokens, success = rows["spent"], rows["success"]
    if not tokens[-1] > 0:  # a dump without token counts: a step is a step
        tokens = np.arange(1.0, len(success) + 1)
    bend = bend_of(tokens / tokens[-1], success)
    low, high = bend.late - Z * bend.late_error, bend.late + Z * bend.late_error
    rose = bend.early - Z * bend.early_error > 0
    if not (rose and high < FLAT * bend.early and 1 - bend.at >= SPENT):
        return None
    spent = (1 - bend.at) * tokens[-1]
    return Finding(
        name="saturation",
        severity="act" if 1 - bend.at >= 2 * SPENT else "watch",
        sentence=f"Success rose to {percent(bend.level)} in the first {percent(bend.at)} of the tokens; since then "
        f"{spent:.3g} more went into {bend.late * (1 - bend.at):+.3f} "
        f"[{low * (1 - bend.at):+.3f}, {high * (1 - bend.at):+.3f}].",
        numbers={
            "bend_at": bend.at,
            "tokens_since": spent,
            "success_at_bend": bend.level,
            "early_slope": bend.early,
            "late_slope": bend.late,
            "late_slope_low": low,
            "late_slope_high": high,
        },
        threshold=f"Since the bend, at least {percent(SPENT)} of the tokens (act: {percent(2 * SPENT)}) have bought "
        f"less than {percent(FLAT)} of the rise per token from before it, interval included. Of training problems: "
        "what is learnt about other problems may go on, and easier problems hide a plateau.",
        advice=[
            "Spend where there is something to gain: recipe dars-hw, xrpo or deep-grpo, or harder problems.",
            "Raise entropy in the plateau: recipe position (a bonus on late tokens) or clip-higher.",
            "Reset the reference and go on: recipe prorl.",
            "Stop: the checkpoint at the bend costs less and is as good.",
        ],
    )


def bend_of(x_S: Floats, y_S: Floats) -> Bend:
    """The continuous line with one bend that fits best, by least squares over bends between a fifth and nine tenths.

    Standard errors from the residuals, given the bend. ``x_S`` in (0, 1], ascending.
    """
    best: tuple[float, Bend] | None = None
    for at in np.arange(0.2, 0.91, 0.02):
        design = np.stack([np.ones(len(x_S)), np.minimum(x_S, at), np.maximum(x_S - at, 0.0)], axis=1)
        inverse = np.linalg.pinv(design.T @ design)
        a, early, late = inverse @ design.T @ y_S
        squares = float(((y_S - design @ (a, early, late)) ** 2).sum())
        errors = np.sqrt(squares / (len(x_S) - 4) * np.diag(inverse))
        if best is None or squares < best[0]:
            bend = Bend(float(at), early, late, float(errors[1]), float(errors[2]), float(a + early * at))
            best = squares, bend
    assert best is not None
    return best[1]
