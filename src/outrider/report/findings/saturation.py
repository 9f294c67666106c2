"""Saturation: success has stopped rising, but training continues to spend tokens."""

from __future__ import annotations

import numpy as np

from outrider.measure.bend import find_bend
from outrider.report.content import Finding
from outrider.report.data import RunData
from outrider.report.digits import points
from outrider.report.findings.base import MIN_STEPS, percent
from outrider.report.findings.view import success_by_step

NEEDS = f"verdicts of at least {MIN_STEPS} training steps"

FLAT = 0.25  # maximum rise per token after the bend, as a share of the rise per token before the bend
CHANCE = 0.01  # significance level: probability that a straight rise with the same noise bends as much by chance
SPENT = 0.25  # minimum share of the run's tokens after the bend; a shorter plateau may be only a pause


def find(run: RunData) -> Finding | None:
    """Check whether the success rate, as a function of generated tokens, rose and then levelled off
    (:mod:`outrider.measure.bend`). The success rate is that of rollouts from the first entry of the recipe's sampling
    plan (``explore``). The generated tokens are those of all rollouts.

    Raises:
        Lacking: see ``NEEDS``.
    """
    rows = success_by_step(run)
    tokens = rows["spent"]
    unit = "tokens"
    if not (np.diff(tokens) > 0).all():  # rollout files without token counts: count steps instead
        tokens, unit = np.arange(1.0, len(tokens) + 1), "steps"
    total = float(tokens[-1])
    seen = find_bend(tokens / total, rows["success"], plateau=FLAT, significance=CHANCE)
    since = 1 - seen.bend.value
    # a bootstrap of few steps gives intervals that are too narrow, so the two intervals must not even touch
    slower = seen.early.low > max(seen.late.high, 0.0)
    if not (seen.shape == "levels off" and slower and since >= SPENT):
        return None
    gain, low, high = (since * slope for slope in (seen.late.value, seen.late.low, seen.late.high))
    return Finding(
        name="saturation",
        severity="act" if since >= 2 * SPENT else "watch",
        sentence=f"Success rose from {percent(seen.start)} to {percent(seen.at_bend)} in the first "
        f"{percent(seen.bend.value)} of the {unit}. In the {since * total:.3g} {unit} since then, success changed by "
        f"{points(gain)} (95 % CI {100 * low:+.1f} to {100 * high:+.1f}).",
        numbers={
            "bend_at": seen.bend.value,
            "bend_low": seen.bend.low,
            "bend_high": seen.bend.high,
            f"{unit}_since": since * total,
            "success_at_start": max(seen.start, 0.0),
            "success_at_bend": seen.at_bend,
            "gain_since": gain,
            "gain_since_low": low,
            "gain_since_high": high,
            "p_value": seen.p_value,
        },
        threshold=f"The curve of success over tokens levels off (p below {percent(CHANCE)} under a straight rise with "
        f"the same noise). At least {percent(SPENT)} of the tokens (act: {percent(2 * SPENT)}) come after the "
        f"bend, with less than {percent(FLAT)} of the earlier rise per token. The 95 % intervals of the two "
        "slopes do not overlap. Success is that of training problems: held-out success can still rise, and a "
        "curriculum of harder problems looks like a plateau.",
        advice=[
            "Use harder problems. To raise pass@k rather than pass@1, allocate more rollouts to hard problems "
            "(recipe dars-hw), or choose problems with the highest value per token (choose-slope3).",
            "Raise entropy on the plateau: recipe position (a bonus on late tokens) or clip-higher.",
            "Reset the reference policy and continue: recipe prorl.",
            "Stop the run: the checkpoint at the bend costs less and is as good.",
        ],
    )
