"""Computes how many tokens each exploration stage (such as ``branch``) generated, and how many successes resulted."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import NamedTuple

from outrider.screen.curves import MetricRows


class StageSpending(NamedTuple):
    """The tokens that one exploration stage, such as ``branch``, generated in all runs. Rates are per 1,000 tokens of
    the stage, and NaN if the stage generated no tokens.

    Attributes:
        stage: position and name of the stage in the recipe, as in metric names, for example ``1-branch``.
        share: fraction of all generated tokens that came from the stage.
        rollouts: mean number of rollouts per step.
        successes: successful rollouts per 1,000 tokens.
        solved: problems that the stage solved and that no earlier stage of the same step had solved, per 1,000 tokens.
    """

    stage: str
    share: float
    rollouts: float
    successes: float
    solved: float


class Spending(NamedTuple):
    """The use of generated tokens over all runs of a recipe.

    Attributes:
        stages: stages in the order of the recipe.
        unused: share of the tokens that were not trained on, because the group had no signal, the rollout was dropped,
            or the verifier failed on the rollout.
        branched: share of the tokens that were generated in branches (continuations of other rollouts).
        seeded: share of the tokens that were generated in rollouts whose prompt contained examples or a hint.
        mixed: share of groups with both successes and failures, averaged over steps.
        gradient: number of tokens in gradient updates per generated token. The number is above 1 if tokens are used in
            several updates (several epochs or replay). It is NaN for runs of Outrider versions that did not count these
            tokens.
    """

    stages: tuple[StageSpending, ...]
    unused: float
    branched: float
    seeded: float
    mixed: float
    gradient: float = math.nan


def spending(metrics: MetricRows) -> Spending:
    """Return the use of generated tokens over all steps of all runs. Shares and rates of tokens are computed from sums
    over the steps, so a step with more tokens has more weight.

    >>> row = {"step_tokens": 2000.0, "mixed": 0.5, "spent/unused": 500.0, "spent/branched": 0.0, "spent/seeded": 0.0,
    ...        "spent/0-uniform/tokens": 2000.0, "spent/0-uniform/rollouts": 64.0,
    ...        "spent/0-uniform/success_per_1000": 4.0, "spent/0-uniform/solved_per_1000": 1.0}
    >>> spending([row]).stages
    (StageSpending(stage='0-uniform', share=1.0, rollouts=64.0, successes=4.0, solved=1.0),)
    """
    total = sum(row["step_tokens"] for row in metrics)
    sums: dict[tuple[str, str], float] = defaultdict(float)
    for row in metrics:
        for name in (key for key in row if key.startswith("spent/")):
            stage, _, number = name.removeprefix("spent/").rpartition("/")
            # the rate times the tokens is a count; counts summed over steps, divided by all tokens, are the run's rate
            weight = row[f"spent/{stage}/tokens"] if number.endswith("_per_1000") else 1.0
            sums[stage, number] += weight * row[name] if weight else 0.0  # the rate of a stage without tokens is NaN
    stages = []
    for name in sorted((s for s, number in sums if number == "tokens"), key=lambda s: int(s.split("-")[0])):
        tokens, rollouts = sums[name, "tokens"], sums[name, "rollouts"]
        rates = (_ratio(sums[name, f"{what}_per_1000"], tokens) for what in ("success", "solved"))
        stages.append(StageSpending(name, _ratio(tokens, total), _ratio(rollouts, len(metrics)), *rates))
    unused, branched, seeded = (_ratio(sums["", kind], total) for kind in ("unused", "branched", "seeded"))
    known = [row["mixed"] for row in metrics if not math.isnan(row["mixed"])]
    # a step without an update lacks this metric
    trained = sum(row.get("learn/tokens", 0.0) for row in metrics)
    gradient = _ratio(trained, total) if trained else math.nan
    return Spending(tuple(stages), unused, branched, seeded, _ratio(sum(known), len(known)), gradient)


def _ratio(amount: float, whole: float) -> float:
    return amount / whole if whole else math.nan
