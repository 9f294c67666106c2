"""Data that several findings use: splits, steps and groups of a run, each read once."""

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
    """``read`` with its result cached for the run: a scan of a million rollouts takes a second."""
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
        first_stage: the stage that asks first; stages sort by their place, as "0-uniform".
        helped: whether that stage draws for some problems from other prompts than plain ones alone.
        steps: how many it has.
        late: the first step of the last quarter of its steps: from there on it is the run as it is now.
        cut: SQL that is true where a response was cut at its length; None where it is not known.
        inferred: whether ``cut`` goes by length alone, as there are no stop reasons.
        verified: rollouts with a verdict.
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
        """SQL condition: rollouts from the plain prompt, requested by the first stage alone.

        Later stages (branches, second passes, examples) choose by outcome, so with them a number changes because the
        choice does. In a dump all rollouts have the empty stage, and none is excluded. Where the first stage shows
        hints there are none: which problems have no hint is a choice too.
        """
        if self.helped:
            return "false"
        stage = self.first_stage.replace("'", "''")
        return f"split = '{self.name}' AND parent IS NULL AND context = 'plain' AND stage = '{stage}'"


@once
def splits(run: RunData) -> dict[str, Split]:
    """Each split that has rollouts, by name.

    Without stop reasons a response counts as cut if it is as long as the longest.
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
    """Advice that only a training can follow; none for an evaluation alone."""
    return () if is_evaluation(run) else advice


def main_split(run: RunData) -> Split:
    """The split for checks that need no training: the rollouts of training, else those of the evaluation.

    Raises:
        Lacking: neither is there.
    """
    result = splits(run)
    for name in ("train", "evaluate"):
        if name in result:
            return result[name]
    raise Lacking("sampled rollouts")


@once
def by_step(run: RunData) -> Columns:
    """One row for each training step, in order, over rollouts of the first stage.

    Columns: ``step``; ``spent``, tokens of *all* rollouts up to and with the step; ``scorable`` and ``successes``;
    ``success``, their ratio; ``entropy`` and ``surprisal`` (mean of -log p), nats per token; ``length`` of a response,
    ``length_failed``, ``length_succeeded``; of scorable rollouts with a reward ``paid``, ``paid_successes``, sums
    ``reward_failed``, ``reward_succeeded``, and of the positive rewards alone ``earned_failed``, ``earned_succeeded``.
    NaN where a step has no data.

    Raises:
        Lacking: fewer than ``MIN_STEPS`` steps.
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
    # of all stages, unlike the rows above: later stages cost tokens too
    spent = run.query(
        f"SELECT step, sum(tokens) AS tokens FROM {run.numbers} WHERE split = 'train' GROUP BY step ORDER BY step"
    )
    at = np.isin(spent["step"], rows["step"])
    with np.errstate(invalid="ignore"):
        success = rows["successes"] / rows["scorable"]
    return {**rows, "success": success, "spent": np.cumsum(np.asarray(spent["tokens"], dtype=np.float64))[at]}


def success_by_step(run: RunData) -> Columns:
    """:func:`by_step`, for those who need every step's success.

    Raises:
        Lacking: too few steps, or a step without a verdict.
    """
    rows = by_step(run)
    if np.isnan(rows["success"]).any():
        raise Lacking("verdicts in every training step")
    return rows


@once
def by_group(run: RunData) -> Columns:
    """One row for each group of the main split, all its rollouts counted but a baseline's, in no particular order.

    Columns: ``problem``, a number; ``step``, ``tokens``; counts of rollouts: ``verified``, ``scorable``, ``successes``,
    ``timeouts``, ``errors``; ``stops`` (known whether cut), ``cut``, ``cut_scorable``, ``cut_successes``; ``ended``
    (verified and not known to be cut), ``ended_unparseable``; and ``cut_tokens``.

    Raises:
        Lacking: no rollouts.
    """
    split = main_split(run)
    cut = split.cut or "(NULL::BOOLEAN)"
    ended = f"outcome IS NOT NULL AND NOT coalesce({cut}, false)"
    # by step too: every evaluation of a run has the same groups
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
    """:func:`by_group` of the last quarter of the steps."""
    groups = by_group(run)
    late = groups["step"] >= main_split(run).late
    return {name: column[late] for name, column in groups.items()}
