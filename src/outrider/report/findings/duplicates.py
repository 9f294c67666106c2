"""Duplicates: the responses of one group are equal more often than chance predicts, or a large share of them is
equal."""

from __future__ import annotations

import math

import numpy as np

from outrider.arrays import Floats
from outrider.report.content import Finding
from outrider.report.data import Columns, RunData
from outrider.report.findings.base import Lacking, Z, numbers, percent, share
from outrider.report.findings.view import for_training, main_split

NEEDS = "the texts of groups of two or more responses"

# Reused seeds produce more identical pairs than chance (vllm#11898). The check fires if more than twice the expected
# number of pairs are identical, and at least 1 pair in 20.
EXCESS, PAIRS = 2.0, 0.05
# Share of identical pairs above which the cause does not matter. A group of 8 with about three distinct texts has this
# share, so most tokens are generated more than once. Unlike the share of distinct texts, it does not depend on the
# group size.
COPIES = 0.25


def find(run: RunData) -> Finding | None:
    r"""Compare the number of equal pairs within groups with the number that the sampling probabilities predict.

    Two independent samples are equal with the probability :math:`\sum_y p(y)^2 = E[p(y)]`. So the mean of :math:`p(y)`
    over a group's responses is an unbiased estimate of the expected share of equal pairs. The test is on the difference
    between the observed and the expected share, with standard errors clustered by problem. This test uses the groups in
    which every rollout has a log-probability. If there is no such group, only the share of equal pairs is checked. All
    numbers refer to the last quarter of the steps.

    Two responses are compared only if they continue the same text: the prompt, or the same prefix of another response.
    They must also come from the same entry of the recipe's sampling plan (``explore``). Equal texts with different
    tokens count as equal.

    Raises:
        Lacking: see ``NEEDS``.
    """
    groups = _groups(run)
    size, distinct = groups["n"], groups["distinct"]
    pairs = size * (size - 1) / 2
    seen = share(groups["equal"], pairs, groups["problem"])
    unique = float(distinct.sum() / size.sum())
    known = ~np.isnan(groups["p"])
    expected, excess, error = _excess(
        groups["equal"][known], pairs[known], groups["p"][known], groups["problem"][known]
    )
    beyond = excess - error > 0 and seen.value > EXCESS * expected and seen.low > PAIRS
    if not (beyond or seen.low > COPIES):
        return None
    chance = (
        "; the expected share is unknown without log-probabilities"
        if math.isnan(expected)
        else f", against {percent(max(expected, 0.0))} expected from their sampling probabilities"
    )
    return Finding(
        name="duplicates",
        severity="act" if beyond else "watch",
        sentence=f"{percent(seen.value)} of the pairs within a group are identical{chance}; {percent(unique)} of the "
        "texts are distinct within their group.",
        numbers={
            **numbers("equal_pairs", seen),
            "expected_pairs": expected,
            "excess_low": excess - error,
            "groups": len(known),
            "groups_with_logprobs": int(known.sum()),
            "distinct": unique,
        },
        threshold=f"In the last quarter of the steps, a group has more than {EXCESS:g} times the number of equal "
        f"pairs that its sampling probabilities predict, and more than {percent(PAIRS)} of its pairs are equal; "
        f"or more than {percent(COPIES)} of the pairs are equal, for any reason. All significantly (3-SE "
        "intervals). The expectation is wrong if log-probabilities were recorded at another temperature or top-p "
        "than the sampler's.",
        advice=(
            ["Check the seeds: each member of a group needs its own. Some engines use one seed for all n completions."]
            if beyond
            else []
        )
        + [
            "Check sample.temperature, sample.top_p and sample.top_k: the sampling distribution is too narrow.",
            *for_training(
                run,
                "Keep entropy higher: recipe clip-higher or kl-cov. Short answers repeat first.",
                "Reward novel successes: credit novelty, as in recipe xrpo.",
            ),
        ],
    )


def _excess(equal_G: Floats, pairs_G: Floats, p_G: Floats, problem_G: Floats) -> tuple[float, float, float]:
    """Return the expected share of equal pairs, the excess of the observed share, and the excess's standard error times
    3; all are NaN if there are no groups."""
    if not len(pairs_G):
        return math.nan, math.nan, math.nan
    difference_G, pairs = equal_G - p_G * pairs_G, float(pairs_G.sum())
    excess = float(difference_G.sum()) / pairs
    # summed by problem before squaring, since groups of one problem are correlated
    by_problem_C = np.bincount(np.unique(problem_G, return_inverse=True)[1], difference_G - excess * pairs_G)
    error = Z * math.sqrt(float((by_problem_C**2).sum())) / pairs
    return float((p_G * pairs_G).sum()) / pairs, excess, error


def _groups(run: RunData) -> Columns:
    """Return one row for each set of comparable responses (see :func:`find`).

    ``n``, ``distinct`` and ``equal`` count responses, different texts and equal pairs. ``p`` is the mean probability of
    a response."""
    split = main_split(run)
    told = f"SELECT 1 AS told FROM rollouts WHERE split = '{split.name}' AND text <> '' LIMIT 1"
    if not len(run.query(told)["told"]):
        raise Lacking(NEEDS)  # all texts are empty because the rollout files lack them
    # one unknown log-probability makes the group's expectation NULL
    groups = run.query(
        f"""
        WITH texts AS (
            SELECT problem_id, step, group_id, stage, parent, branch_at, hash(text) AS text, count(*) AS n,
                sum(exp(logprob * tokens)) AS p, count(logprob * tokens) AS known
            FROM rollouts
            WHERE split = '{split.name}' AND step >= {split.late} AND context = 'plain' AND text IS NOT NULL
            GROUP BY ALL
        )
        SELECT min(problem_id) AS problem, sum(n)::DOUBLE AS n, count(*)::DOUBLE AS distinct,
            sum(n * (n - 1) / 2)::DOUBLE AS equal,
            CASE WHEN sum(known) = sum(n) THEN sum(p) / sum(n) END::DOUBLE AS p
        FROM texts GROUP BY step, group_id, stage, parent, branch_at HAVING sum(n) >= 2
        """
    )
    if not len(groups["n"]):
        raise Lacking(NEEDS)
    groups["problem"] = np.unique(groups["problem"], return_inverse=True)[1].astype(np.float64)
    return groups
