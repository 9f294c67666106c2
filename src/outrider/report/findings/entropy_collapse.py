"""Entropy collapse: the policy has become almost deterministic, although many responses still fail."""

from __future__ import annotations

import math

import numpy as np

from outrider.arrays import Floats
from outrider.report.content import Finding
from outrider.report.data import RunData
from outrider.report.findings.base import MIN_STEPS, FirstAndLast, Lacking, Z, change, percent
from outrider.report.findings.view import by_step, success_by_step

NEEDS = f"token entropies or log-probabilities, and verdicts, of at least {MIN_STEPS} training steps"

# In the runs of Cui et al. 2025 (arXiv 2505.22617) without intervention, success rises as entropy falls. About three
# quarters of the gain is reached when 27 % of the entropy is left, and nearly the whole gain when 6 % is left.
LOW, SPENT = 0.25, 0.10
SOLVED = 0.95  # above this success rate, low entropy is intended
PARTS = 10  # the end of a run is the last tenth of its steps


def find(run: RunData) -> Finding | None:
    """Check the ratio of the entropy per token in the last tenth of the steps to that in the first step.

    The reference is only the first step, since a collapse may take only a few steps. Only rollouts from the first entry
    of the recipe's sampling plan (``explore``) are used, not rollouts that later entries add. If no entropies are
    recorded, the entropy is estimated by the mean of :math:`-\\log p` over sampled tokens, and the finding calls it an
    estimate.

    Raises:
        Lacking: see ``NEEDS``.
    """
    entropy_S, source = _entropies(run)
    success = change(success_by_step(run)["success"], PARTS).after
    # bounded below, since the entropy of a greedy policy is 0
    fall = _from_the_first(np.log(np.maximum(entropy_S, 1e-9)))
    before, after = math.exp(fall.before), math.exp(fall.after)
    if not (math.exp(fall.high) < LOW and success < SOLVED):
        return None
    left = after / before
    return Finding(
        name="entropy collapse",
        severity="act" if left < SPENT else "watch",
        sentence=f"{source} fell from {before:.3g} to {after:.3g} nats per token: {percent(left)} is left (3-SE "
        f"interval {percent(math.exp(fall.low))} to {percent(math.exp(fall.high))}), while {percent(1 - success)} "
        "of the responses fail.",
        numbers={
            "entropy_before": before,
            "entropy_after": after,
            "left": left,
            "left_low": math.exp(fall.low),
            "left_high": math.exp(fall.high),
            "success_after": success,
        },
        threshold=f"In the last tenth of the steps, less than {percent(LOW)} of the first step's entropy is left, "
        f"significantly (3-SE interval), while success is below {percent(SOLVED)}; act below {percent(SPENT)}. "
        "The rule is relative: a policy with low entropy from the first step is not found.",
        advice=[
            "Resume from a checkpoint before the fall, with a higher upper clip bound: recipe clip-higher, or "
            "objective.surrogate.clip=[0.2,0.28].",
            "Clip or KL-penalise the tokens that reduce entropy most: recipe kl-cov or clip-cov.",
            "Set a target for the entropy bonus: objective.entropy.target, near the entropy of a good checkpoint.",
            "Give successes less weight: recipe w-reinforce or nsr; or halve learn.lr.",
        ],
    )


def _from_the_first(values_S: Floats) -> FirstAndLast:
    r"""Return the first step's value and the mean over the last tenth of the steps, with the difference's interval.

    The noise of a step is estimated from the median squared difference of neighbouring steps, :math:`\hat\sigma^2 =
    \mathrm{med}\,(x_{s+1} - x_s)^2 / (2 \cdot 0.455)`, where 0.455 is the median of a squared standard normal variable.
    A trend or a sudden fall hardly affects :math:`\hat\sigma`. The difference between one step and a mean over m steps
    has the standard error :math:`\hat\sigma \sqrt{1 + 1/m}`.
    """
    m = max(3, len(values_S) // PARTS)
    before, after = float(values_S[0]), float(values_S[-m:].mean())
    sigma = math.sqrt(float(np.median(np.diff(values_S) ** 2)) / (2 * 0.455))
    error = Z * sigma * math.sqrt(1 + 1 / m)
    return FirstAndLast(before, after, after - before - error, after - before + error)


def _entropies(run: RunData) -> tuple[Floats, str]:
    """Return the entropy of each step in nats per token, and its name in the report: "Entropy", or "Entropy (estimated
    …)"."""
    rows = by_step(run)
    metric = run.metrics.get("entropy", np.zeros(0))
    for values, source in (
        (rows["entropy"], "Entropy"),
        (metric, "Entropy"),
        (rows["surprisal"], "Entropy (estimated from the sampled log-probabilities)"),
    ):
        known = np.asarray(values, dtype=np.float64)
        known = known[~np.isnan(known)]
        if len(known) >= MIN_STEPS:
            return known, source
    raise Lacking(f"entropies or log-probabilities of at least {MIN_STEPS} training steps")
