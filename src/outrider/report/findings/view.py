"""Data for the checks that find problems in a run: the run's splits, steps and groups, each read only once per run."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from outrider.report.data import CUT, SAMPLED, Columns, RunData
from outrider.report.findings.base import MIN_STEPS, Lacking
from outrider.report.kind import is_evaluation

SUCCESS = "(outcome = 'correct')"
SCORABLE = "(outcome IN ('correct', 'incorrect', 'unparseable'))"

T = TypeVar("T")


def once(read: Callable[[RunData], T]) -> Callable[[RunData], T]:
    """Cache the result of ``read`` per run, since a scan of a million rollouts takes a second."""
    answers: WeakKeyDictionary[RunData, T] = WeakKeyDictionary()

    @functools.wraps(read)
    def answer(run: RunData) -> T:
        if run not in answers:
            answers[run] = read(run)
        return answers[run]

    return answer


class Split(NamedTuple):
    """Facts about the rollouts of one split.

    Attributes:
        name: "train", "evaluate" or "greedy".
        first_stage: index and name of the first entry of the recipe's ``explore``, such as "0-uniform".
        helped: whether some groups of ``first_stage`` have only rollouts with hints or examples in the prompt.
        steps: number of steps.
        late: number of the first step in the last quarter of the steps.
        cut: SQL condition that is true if a response was truncated at the length limit; None if unknown.
        inferred: whether ``cut`` is inferred from lengths, because stop reasons are missing.
        verified: number of rollouts with a verdict.
    """

    name: str
    first_stage: str
    helped: bool
    steps: int
    late: int
    cut: str | None
    inferred: bool
    verified: int

    @property
    def first_stage_rollouts(self) -> str:
        """SQL condition for rollouts of the first stage (:attr:`first_stage`) that were sampled without added examples
        or hints in the prompt.

        Later stages may select problems by the outcomes of earlier rollouts, so their statistics may change merely
        because the selection changes. In other frameworks' rollouts, all stage names are empty, so no rollout is
        excluded. If :attr:`helped` is True, the condition excludes all rollouts, because problems that are sampled
        without hints are then a biased selection.
        """
        if self.helped:
            return "false"
        stage = self.first_stage.replace("'", "''")
        return f"split = '{self.name}' AND parent IS NULL AND context = 'plain' AND stage = '{stage}'"


@once
def splits(run: RunData) -> dict[str, Split]:
    """Return each split that has rollouts, keyed by name.

    If stop reasons are missing, a response as long as the split's longest response counts as truncated.
    """
    rows = run.query(
        "SELECT split, min(stage) AS stage, list_sort(list(DISTINCT step)) AS steps, count(stop) AS stops, "
        "max(branch_at + tokens + coalesce(observed, 0))::DOUBLE AS longest, count(outcome) AS verified "
        f"FROM {run.numbers} GROUP BY split"
    )
    others = run.query(
        f"SELECT DISTINCT split, stage FROM (SELECT split, stage FROM {run.numbers} WHERE parent IS NULL "
        "GROUP BY split, stage, step, group_id HAVING count(*) FILTER (context = 'plain') = 0)"
    )
    helped = set(zip(*others.values(), strict=True))
    results = {}
    for name, stage, steps, stops, longest, verified in zip(*rows.values(), strict=True):
        by_length = None if np.isnan(longest) else f"(branch_at + tokens + coalesce(observed, 0) >= {longest:.0f})"
        results[name] = Split(
            name=name,
            first_stage=stage,
            helped=(name, stage) in helped,
            steps=len(steps),
            late=int(steps[-max(1, math.ceil(len(steps) / 4))]),
            cut=f"({CUT})" if stops else by_length,
            inferred=not stops,
            verified=int(verified),
        )
    return results


def for_training(run: RunData, *advice: str) -> tuple[str, ...]:
    """Return ``advice``, which applies only to training; the result is empty for an evaluation without training."""
    return () if is_evaluation(run) else advice


def main_split(run: RunData) -> Split:
    """Return the split for checks that do not need training: ``train`` if it exists, otherwise ``evaluate``.

    Raises:
        Lacking: the run has neither split.
    """
    result = splits(run)
    for name in ("train", "evaluate"):
        if name in result:
            return result[name]
    raise Lacking("sampled rollouts")


@once
def by_step(run: RunData) -> Columns:
    """Return statistics of the rollouts from the first entry of the recipe's sampling plan (``explore``), with one row
    per training step in order.

    ``step`` is the number of the step. ``spent`` is the number of tokens in rollouts of *all* entries of ``explore``,
    up to and including the step. ``scorable`` counts the rollouts whose verifier did not fail, ``successes`` counts the
    successes, and ``success`` is the ratio of the two counts. ``entropy`` and ``surprisal`` (mean of -log p) are in
    nats per token. ``length``, ``length_failed`` and ``length_succeeded`` are mean response lengths. ``paid`` counts
    the scorable rollouts with a reward, and ``paid_successes`` the successes among them. ``reward_failed`` and
    ``reward_succeeded`` are sums of the rewards of failures and of successes. ``earned_failed`` and
    ``earned_succeeded`` are the same sums over positive rewards only. A number is NaN if a step has no data.

    Raises:
        Lacking: there are fewer than ``MIN_STEPS`` steps, or some groups have only rollouts with hints or examples in
            the prompt.
    """
    train = splits(run).get("train")
    if train is None or train.steps < MIN_STEPS:
        raise Lacking(f"at least {MIN_STEPS} training steps (the run has {train.steps if train else 0})")
    if train.helped:
        raise Lacking(
            f"rollouts from plain prompts for all problems, which the first stage, {train.first_stage}, does not sample"
        )
    failure = f"{SCORABLE} AND NOT {SUCCESS}"
    paid = f"{SCORABLE} AND reward IS NOT NULL AND NOT isnan(reward)"
    rows = run.query(
        f"""
        SELECT step,
            count(*) FILTER ({SCORABLE})::DOUBLE AS scorable, count(*) FILTER ({SUCCESS})::DOUBLE AS successes,
            sum(entropy * tokens) / sum(tokens) FILTER (entropy IS NOT NULL) AS entropy,
            -sum(logprob * tokens) / sum(tokens) FILTER (logprob IS NOT NULL) AS surprisal,
            avg(tokens) AS length, avg(tokens) FILTER ({failure}) AS length_failed,
            avg(tokens) FILTER ({SUCCESS}) AS length_succeeded,
            count(*) FILTER ({paid})::DOUBLE AS paid, count(*) FILTER ({SUCCESS} AND {paid})::DOUBLE AS paid_successes,
            coalesce(sum(reward) FILTER ({failure} AND {paid}), 0) AS reward_failed,
            coalesce(sum(reward) FILTER ({SUCCESS} AND {paid}), 0) AS reward_succeeded,
            coalesce(sum(greatest(reward, 0)) FILTER ({failure} AND {paid}), 0) AS earned_failed,
            coalesce(sum(greatest(reward, 0)) FILTER ({SUCCESS} AND {paid}), 0) AS earned_succeeded
        FROM {run.numbers} WHERE {train.first_stage_rollouts} GROUP BY step ORDER BY step
        """
    )
    # over all stages, unlike the query above, since later stages also cost tokens
    spent = run.query(
        f"SELECT step, sum(tokens) AS tokens FROM {run.numbers} WHERE split = 'train' GROUP BY step ORDER BY step"
    )
    at = np.isin(spent["step"], rows["step"])
    with np.errstate(invalid="ignore"):
        success = rows["successes"] / rows["scorable"]
    return {**rows, "success": success, "spent": np.cumsum(np.asarray(spent["tokens"], dtype=np.float64))[at]}


def success_by_step(run: RunData) -> Columns:
    """Return the result of :func:`by_step` if the success rate of every step is known.

    Raises:
        Lacking: the run lacks data that :func:`by_step` needs, or there is a step without a verified rollout.
    """
    rows = by_step(run)
    if np.isnan(rows["success"]).any():
        raise Lacking("verdicts in every training step")
    return rows


@once
def by_group(run: RunData) -> Columns:
    """Return counts over the training rollouts (evaluation rollouts if there was no training), with one row per group
    in no particular order. Greedily decoded rollouts are excluded.

    The first columns are ``problem`` (a number), ``step`` and ``tokens``. The columns ``verified``, ``scorable``
    (neither timeout nor error), ``successes``, ``timeouts`` and ``errors`` count rollouts. ``stops`` counts the
    rollouts for which it is known whether they were truncated. ``cut`` counts the truncated rollouts, ``cut_tokens``
    their tokens, ``cut_scorable`` the truncated rollouts that are scorable, and ``cut_successes`` the truncated
    rollouts that succeeded. ``ended`` counts the verified rollouts that are not known to be truncated, and
    ``ended_unparseable`` counts those whose answer cannot be parsed.

    Raises:
        Lacking: there are no sampled rollouts.
    """
    split = main_split(run)
    cut = split.cut or "(NULL::BOOLEAN)"
    ended = f"outcome IS NOT NULL AND NOT coalesce({cut}, false)"
    # also grouped by step, since all evaluations of a run have the same group ids
    rows = run.query(
        f"""
        SELECT step, min(problem_id) AS problem, sum(tokens) AS tokens, count(outcome) AS verified,
            count(*) FILTER ({SCORABLE}) AS scorable, count(*) FILTER ({SUCCESS}) AS successes,
            count(*) FILTER (outcome = 'timeout') AS timeouts, count(*) FILTER (outcome = 'error') AS errors,
            count({cut}) AS stops, count(*) FILTER ({cut}) AS cut,
            count(*) FILTER ({cut} AND {SCORABLE}) AS cut_scorable,
            count(*) FILTER ({cut} AND {SUCCESS}) AS cut_successes,
            count(*) FILTER ({ended}) AS ended,
            count(*) FILTER ({ended} AND outcome = 'unparseable') AS ended_unparseable,
            coalesce(sum(tokens) FILTER ({cut}), 0) AS cut_tokens
        FROM {run.numbers} WHERE split = '{split.name}' AND {SAMPLED} GROUP BY step, group_id
        """
    )
    rows["problem"] = np.unique(rows["problem"], return_inverse=True)[1]
    return {name: np.asarray(column, dtype=np.float64) for name, column in rows.items()}


def late_groups(run: RunData) -> Columns:
    """Return the rows of :func:`by_group` for the last quarter of the steps."""
    groups = by_group(run)
    late = groups["step"] >= main_split(run).late
    return {name: column[late] for name, column in groups.items()}
