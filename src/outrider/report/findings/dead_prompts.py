"""Dead prompts: groups whose rollouts all fail or all succeed, so that they have no learning signal."""

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

# To get one group with a signal, 1 / (1 - share) groups must be sampled: 2.5 at the first threshold, 5 at the second.
# DAPO samples up to three groups per kept group, which suffices at the first threshold, but not at the second.
MANY, MOST = 0.6, 0.8
VISITS = 3  # minimum number of steps with the problem; 3 x 8 rollouts at a pass rate of 12 % all fail once in 20 cases
HOPELESS = 0.3  # share of tokens on hopeless problems; below it, refilling groups costs more than it saves


def find(run: RunData) -> Finding | None:
    """Check the share of groups without a signal in the last quarter of the steps, and the share of the run's tokens
    spent on hopeless problems.

    A group has no signal if all its verified rollouts succeed, or if all fail. Rollouts with hints or examples in the
    prompt are included. Success and failure are the verifier's verdicts; rewards are ignored. A problem is hopeless if
    it was sampled in at least three steps and never solved. After :math:`n` failures, the 95 % upper bound of its pass
    rate is :math:`1 - 0.05^{1/n}`.

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
    what = f"of the {dead.of} groups have no signal" if evaluation else f"of the last {dead.of} groups have no signal"
    sentence = (
        f"{percent(dead.value)} {what} ({percent(shares['all_failed'])} all failed, {percent(shares['all_solved'])} "
        f"all solved). They take {percent(shares['dead_tokens'])} of the tokens."
    )
    if hopeless["share"] >= 0.01:
        sentence += (
            f" {hopeless['problems']:.0f} problems were never solved in {VISITS} or more visits (95 % upper bound of "
            f"the pass rate: {percent(hopeless['pass_rate_below'])} at the median number of samples). They take "
            f"{percent(hopeless['share'])} of all tokens."
        )
    return Finding(
        name="dead prompts",
        severity="act" if dead.low > MOST else "watch",
        sentence=sentence,
        numbers=shares,
        threshold=f"More than {percent(MANY)} of the groups in the last quarter of the steps have no signal, "
        f"significantly (3-SE interval; act: {percent(MOST)}); or problems never solved in {VISITS} or more "
        f"visits take more than {percent(HOPELESS)} of all tokens. The rule uses verdicts only: with a shaped "
        "reward, or a baseline other than the group's, such groups can still have a gradient.",
        advice=(_of_evaluation if evaluation else _of_training)(failed.sum() >= solved.sum()),
    )


def _of_training(mostly_failed: bool) -> list[str]:
    return [
        "Replace groups without a signal within the step: recipe dapo (stage refill).",
        "Sample problems without a signal less often: stage skip. Remove problems that outrider evaluate never solves.",
        "Continue from a prefix of the last success, or train on it again, where problems return: recipe "
        "prefix-replay or choose-annealed. Allocate more rollouts to problems with few successes: recipe dars-hw."
        if mostly_failed
        else "Use harder problems: most of these groups are solved by every rollout.",
    ]


def _of_evaluation(mostly_failed: bool) -> list[str]:
    return [
        "Draw more samples of each problem, to separate low pass rates from zero."
        if mostly_failed
        else "Use harder problems: these separate only weaker policies.",
        "Verify the gold answers: a problem with a wrong gold answer is never solved.",
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
