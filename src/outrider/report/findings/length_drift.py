"""Length drift: responses become longer or shorter for reasons other than success."""

from __future__ import annotations

import math

import numpy as np

from outrider.arrays import Floats
from outrider.report.content import Finding
from outrider.report.data import RunData
from outrider.report.findings.base import MIN_STEPS, FirstAndLast, Lacking, change
from outrider.report.findings.view import by_step

NEEDS = f"token counts of at least {MIN_STEPS} training steps"

# A factor of 1.25 exceeds the variation between steps due to their different problems; 1.5 clearly raises the cost per
# rollout.
SOME, MUCH = 1.25, 1.5


def find(run: RunData) -> Finding | None:
    """Check the ratio of the mean response length in the last quarter of the steps to that in the first quarter.

    Only rollouts from the first entry of the recipe's sampling plan (``explore``) are used, not rollouts that later
    entries add. If rollouts were verified, the ratio is also computed for failures only.

    Raises:
        Lacking: see ``NEEDS``.
    """
    rows = by_step(run)
    columns = {"everything": "length", "failures": "length_failed", "successes": "length_succeeded"}
    drifts = {name: _drift(rows[column]) for name, column in columns.items()}
    if math.isnan(drifts["everything"].value):
        raise Lacking(NEEDS)
    results = {name: d for name in ("everything", "failures") if _beyond(d := drifts[name], SOME)}
    if not results:
        return None
    which, drift = next(iter(results.items()))
    before, after, ratio = math.exp(drift.before), math.exp(drift.after), math.exp(drift.value)
    grows = drift.value > 0
    subject = "Responses" if which == "everything" else "Failed responses"
    others = "successes" if which == "failures" else "failures"
    beside = "" if math.isnan(drifts[others].value) else f"; {others} by {math.exp(drifts[others].value):.2f}"
    return Finding(
        name="length drift",
        severity="act" if _beyond(drift, MUCH) else "watch",
        sentence=f"{subject} {'grew' if grows else 'shrank'} from {before:.0f} to {after:.0f} tokens, by a factor of "
        f"{ratio:.2f} (3-SE interval {math.exp(drift.low):.2f} to {math.exp(drift.high):.2f}){beside}.",
        numbers={
            f"{name}_{part}": math.exp(getattr(d, part))
            for name, d in drifts.items()
            for part in ("before", "after", "low", "high")
        },
        threshold="Between the first and the last quarter of the steps, the mean length of all responses, or of "
        f"failures, changes by more than a factor of {SOME}, significantly (3-SE interval); act: {MUCH}. Means "
        "over steps are geometric. Longer reasoning can raise success: compare success at equal tokens. As more "
        "problems are solved, failures come from other problems.",
        advice=(
            [
                "Use a constant denominator: recipe dr-grpo (objective.aggregate=constant). Then tokens of long "
                "failures weigh as much as those of short ones.",
                "Penalise length near the limit: credit overlong, as in recipe dapo.",
                "Read the longest failures: most repeat themselves.",
            ]
            if grows
            else [
                "Read the shortest successes: guesses, or answers without work, mean that the verifier accepts too "
                "much.",
                "Use a constant denominator: recipe dr-grpo. A mean over each response gives tokens of short "
                "successes more weight.",
                "Check that no length penalty (credit overlong) outweighs success.",
            ]
        ),
    )


def _drift(lengths_S: Floats) -> FirstAndLast:
    """Return the change in the logarithm of the length, which is the logarithm of the ratio of lengths. Exclude steps
    without a length."""
    known = np.asarray(lengths_S, dtype=np.float64)
    known = known[~np.isnan(known)]
    return change(np.log(np.maximum(known, 1.0)) if len(known) >= MIN_STEPS else [])


def _beyond(drift: FirstAndLast, ratio: float) -> bool:
    return drift.low > math.log(ratio) or drift.high < -math.log(ratio)
