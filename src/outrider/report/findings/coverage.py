"""Coverage narrowing: pass@1 rises while pass@k falls."""

from __future__ import annotations

import numpy as np

from outrider.measure import Interval, bootstrap_difference, pass_at_k, powers_of_two
from outrider.measure.compare import paired
from outrider.measure.evaluation import pass_values
from outrider.report.content import Finding
from outrider.report.data import RunData
from outrider.report.findings.base import Lacking, numbers
from outrider.report.findings.view import SCORABLE, SUCCESS, for_training, splits

NEEDS = (
    "two evaluations with several samples each of the same 30 or more problems, or 30 or more problems that training "
    "visited twice"
)

MIN_PROBLEMS = 30  # percentile intervals over fewer problems are too narrow (measure.bootstrap)
MIN_K = 4  # pass@2 is hardly a measure of coverage
# 5 problems of 100, which is about the size of the gains that papers report at the same k
LOSS = 0.05


def find(run: RunData) -> Finding | None:
    """Check whether pass@1 rises and pass@k (at the largest available k) falls from the first to the last policy.

    Both changes are paired by problem, and are computed from the first and the last evaluation. If there are fewer than
    two evaluations, training rollouts are used, but only those from the first entry of the recipe's sampling plan
    (``explore``). For each problem that was sampled in several steps, the first of these steps is compared with the
    last. Training rollouts have two biases: success is higher on trained problems, and a curriculum may choose problems
    by their outcomes. If ``explore`` has a ``skip`` entry, which chooses problems in this way, training rollouts are
    not used.

    Raises:
        Lacking: see ``NEEDS``.
    """
    source, k, one, many, crossing = _evaluations(run) or _visits(run)
    if not (one.low > 0 and many.high < 0):
        return None
    since = f", lower from pass@{crossing} on" if crossing else ""
    return Finding(
        name="coverage narrowing",
        severity="act" if -many.value >= LOSS else "watch",
        sentence=f"pass@1 rose by {100 * one.value:.1f} points (95 % CI {100 * one.low:.1f} to {100 * one.high:.1f}), "
        f"and pass@{k} fell by {-100 * many.value:.1f} points (95 % CI {-100 * many.high:.1f} to "
        f"{-100 * many.low:.1f}){since}: {source}, {many.problems} problems.",
        numbers={
            "k": k,
            **numbers("pass_at_1", one),
            **numbers("pass_at_k", many),
            "problems": many.problems,
            "falls_from_k": crossing if crossing else np.nan,
        },
        threshold="pass@1 rises and pass@k falls significantly (paired 95 % intervals over problems), at the largest "
        f"k that both evaluations have; act if pass@k falls by {100 * LOSS:.0f} points or more. The intervals do "
        "not cover the seed of the run. Losses before the first evaluation are not measured.",
        advice=[
            *for_training(
                run,
                "Continue from prefixes of rare successes in later epochs: recipe prefix-replay.",
                "Allocate more rollouts to hard problems: recipe dars-hw-breadth.",
                "Optimise pass@k: recipe passk-training or choose-slope3.",
            ),
            "Use an earlier checkpoint if you sample many responses per problem; compare checkpoints with "
            "outrider evaluate at this k.",
        ],
    )


Seen = tuple[str, int, Interval, Interval, int]


def _evaluations(run: RunData) -> Seen | None:
    if len(run.evaluations) < 2:
        return None
    first, last = min(run.evaluations), max(run.evaluations)
    pairs = paired(run.evaluations[first], run.evaluations[last])
    if len(pairs) < MIN_PROBLEMS:
        return None
    # some problems lack a sample because of verifier timeouts, so use the sample count that nine of ten problems reach
    samples = [min(tally.scorable for tally in pair) for pair in pairs]
    ks = powers_of_two(int(np.quantile(samples, 0.1, method="lower")))
    if not ks or ks[-1] < MIN_K:
        return None
    values = {k: (pass_values([b for b, _ in pairs], k), pass_values([a for _, a in pairs], k)) for k in ks}
    lower = 0  # the smallest k such that pass@k is lower than before for this k and every larger k
    for k in reversed(ks):
        if np.nanmean(values[k][1] - values[k][0]) >= 0:
            break
        lower = k
    one, many = (bootstrap_difference(*values[k]) for k in (1, ks[-1]))
    return f"evaluations of steps {first} and {last}", ks[-1], one, many, lower


def _visits(run: RunData) -> Seen:
    if any("skip" in stage for stage in run.config.get("explore", ())):
        raise Lacking("two evaluations (visits are biased, because the stage skip chooses problems by their outcomes)")
    if "train" not in splits(run):
        raise Lacking(NEEDS)
    rows = run.query(
        f"""
        WITH visits AS (
            SELECT problem_id, group_id, min(step) AS step,
                count(*) FILTER ({SCORABLE}) AS n, count(*) FILTER ({SUCCESS}) AS c
            FROM {run.numbers} WHERE {splits(run)["train"].first_stage_rollouts} GROUP BY problem_id, group_id
        )
        SELECT arg_min(n, step) AS n0, arg_min(c, step) AS c0, arg_max(n, step) AS n1, arg_max(c, step) AS c1
        FROM visits GROUP BY problem_id HAVING max(step) > min(step) ORDER BY problem_id
        """
    )
    sizes = np.minimum(rows["n0"], rows["n1"])
    k = int(np.median(sizes)) if len(sizes) else 0
    if k < MIN_K or (sizes >= k).sum() < MIN_PROBLEMS:
        raise Lacking(NEEDS)
    one, many = (
        bootstrap_difference(pass_at_k(rows["n0"], rows["c0"], j), pass_at_k(rows["n1"], rows["c1"], j)) for j in (1, k)
    )
    return "first and last visit of each training problem", k, one, many, 0
