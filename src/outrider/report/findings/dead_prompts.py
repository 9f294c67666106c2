"""Dead prompts: groups whose rollouts all fail, or all succeed, so that nothing can be learned from them."""

from __future__ import annotations

import math

import numpy as np

from outrider.measure.unsolvable import pass_rate_bound
from outrider.report.content import Finding
from outrider.report.data import SAMPLED, RunData
from outrider.report.findings.base import Lacking, numbers, percent, share
from outrider.report.findings.view import SCORABLE, SUCCESS, late_groups, main_split
from outrider.report.kind import is_evaluation

NEEDS = "groups of at least two verified rollouts"

# What one group with a signal costs is 1 / (1 - share) groups: two and a half at the first number, five at the second.
# DAPO draws up to three groups for one that it keeps, which covers the first and not the second.
MANY, MOST = 0.6, 0.8
VISITS = 3  # with 8 rollouts each, a problem of a pass rate of 12 % is missed this often in one of 20 cases
HOPELESS = 0.3  # share of the tokens; below, refilling costs more than it saves


def find(run: RunData) -> Finding | None:
    """The share of groups without a signal in the last quarter of the steps, and the cost of hopeless problems.

    A group has no signal if all its scorable rollouts agree, branches and seeded ones included: the verdict decides,
    never a shaped reward. A problem is hopeless if it was never solved in at least three visits; its pass rate is, with
    95 % certainty, below :math:`1 - 0.05^{1/n}` for :math:`n` failures.

    Raises:
        Lacking: see ``NEEDS``.
    """
    groups = late_groups(run)
    verified = groups["scorable"] >= 2
    if not verified.any():
        raise Lacking(NEEDS)
    failed = verified & (groups["successes"] == 0)
    solved = verified & (groups["successes"] == groups["scorable"])
    dead = share((failed | solved)[verified], verified[verified], groups["problem"][verified])
    hopeless = _hopeless(run)
    if not (dead.low > MANY or hopeless["share"] > HOPELESS):
        return None
    tokens = np.nan_to_num(groups["tokens"])
    shares = {
        **numbers("dead", dead),
        "groups": dead.of,
        "all_failed": float(failed.sum() / verified.sum()),
        "all_solved": float(solved.sum() / verified.sum()),
        "dead_tokens": float(tokens[failed | solved].sum() / tokens.sum()) if tokens.sum() else math.nan,
        **{f"never_solved_{name}": value for name, value in hopeless.items()},
    }
    evaluation = is_evaluation(run)
    what = (
        f"of the {dead.of} groups tell no try from another"
        if evaluation
        else f"of the last {dead.of} groups teach nothing"
    )
    sentence = (
        f"{percent(dead.value)} {what} ({percent(shares['all_failed'])} all failed, {percent(shares['all_solved'])} "
        f"all solved), with {percent(shares['dead_tokens'])} of the tokens."
    )
    if hopeless["share"] >= 0.01:
        sentence += (
            f" {hopeless['problems']:.0f} problems were never solved in {VISITS} or more visits (pass rate below "
            f"{percent(hopeless['pass_rate_below'])} for the typical one); they took {percent(hopeless['share'])} of "
            "all tokens."
        )
    return Finding(
        name="dead prompts",
        severity="act" if dead.low > MOST else "watch",
        sentence=sentence,
        numbers=shares,
        threshold=f"More than {percent(MANY)} of the groups in the last quarter of the steps without a signal, "
        f"interval included (act: {percent(MOST)}); or more than {percent(HOPELESS)} of all tokens spent on problems "
        f"never solved in {VISITS} or more visits. By verdicts: where rewards are shaped, or the baseline is not "
        "the group's, a group may still have moved the policy.",
        advice=(_of_evaluation if evaluation else _of_training)(failed.sum() >= solved.sum()),
    )


def _of_training(mostly_failed: bool) -> list[str]:
    return [
        "Replace groups without a signal within the step: recipe dapo (stage refill).",
        "Offer problems that taught nothing less often: stage skip; or drop what outrider evaluate never solves.",
        "What nothing solves trained on its own last success, where problems come back: recipe prefix-replay or "
        "choose-annealed; more rollouts where few succeed: dars-hw."
        if mostly_failed
        else "Harder problems: most of these groups are solved by every rollout.",
    ]


def _of_evaluation(mostly_failed: bool) -> list[str]:
    return [
        "More samples of each problem, which tell rare success from none."
        if mostly_failed
        else "Harder problems: these tell apart only policies that are worse.",
        "Grade the reference answers themselves: a problem whose answer is wrong is never solved.",
    ]


def _hopeless(run: RunData) -> dict[str, float]:
    rows = run.query(
        f"""
        WITH problems AS (
            SELECT problem_id, count(DISTINCT group_id) AS visits, count(*) FILTER ({SCORABLE}) AS n,
                count(*) FILTER ({SUCCESS}) AS c, coalesce(sum(tokens), count(*))::DOUBLE AS tokens
            FROM {run.numbers} WHERE split = '{main_split(run).name}' AND {SAMPLED} GROUP BY problem_id
        )
        SELECT count(*) FILTER (c = 0 AND visits >= {VISITS} AND n > 0) AS problems,
            median(n) FILTER (c = 0 AND visits >= {VISITS} AND n > 0) AS samples,
            coalesce(sum(tokens) FILTER (c = 0 AND visits >= {VISITS} AND n > 0) / sum(tokens), 0) AS share
        FROM problems
        """
    )
    problems, samples = int(rows["problems"][0]), float(rows["samples"][0])
    below = float(pass_rate_bound(samples)) if problems else math.nan
    return {"problems": float(problems), "pass_rate_below": below, "share": float(rows["share"][0])}
