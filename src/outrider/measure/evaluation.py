"""Evaluates a policy on a set of problems: computes pass@k and other metrics, with intervals, from rollouts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from outrider.arrays import Floats
from outrider.errors import UserError
from outrider.measure.bootstrap import Interval, bootstrap_mean
from outrider.measure.passk import pass_at_k, powers_of_two
from outrider.measure.tally import Tally
from outrider.record import Problem, Rollout
from outrider.record.json_data import json_data

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Summary:
    """The results of an evaluation for all problems, for one difficulty level, or for one test set.

    ``pass_at``, ``majority`` and ``greedy`` are means over problems with bootstrap intervals over problems;
    ``Interval.problems`` is the number of problems in the mean. Unless stated otherwise, all values are computed from
    sampled responses, without the greedy responses.

    Attributes:
        level: the level's label or the test set's name; ``"all"`` for all problems.
        pass_at: unbiased pass@k for k = 1, 2, 4, …, n. ``pass_at[1]`` is avg@n, the mean success.
        majority: majority@n, the success of the most frequent answer; NaN if no response in the evaluation has an
            answer text.
        greedy: success rate of greedy decoding.
        problems, samples, scorable: number of problems, number of responses, and number of responses that could be
            verified.
        voteless: number of problems without an answer in any response; their majority@n is 0.
        truncated, unparseable: shares of ``samples`` that were truncated, or in which no answer was found.
        timeouts, errors: number of responses, including greedy ones, for which the verifier exceeded its time limit
            (timeouts) or failed (errors).
        entropy: mean token entropy in nats; NaN if not recorded.
        length: mean number of tokens per response.
        generated_tokens: total number of generated tokens, including greedy responses.
    """

    level: str
    pass_at: Mapping[int, Interval]
    majority: Interval
    greedy: Interval

    problems: int
    samples: int
    scorable: int
    voteless: int
    truncated: float
    unparseable: float
    timeouts: int
    errors: int
    entropy: float
    length: float
    generated_tokens: int


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The results of evaluating one policy on one set of problems.

    Attributes:
        overall: summary over all problems.
        levels: one summary per difficulty label (:attr:`Tally.label`), in natural order; empty if problems have no
            label.
        tallies: counts per problem, in the order of the problems; used for paired comparisons.
        resamples, seed: number of bootstrap resamples, and their random seed.
        test_sets: one summary per test set, in natural order; empty if there are fewer than two test sets.
    """

    overall: Summary
    levels: tuple[Summary, ...]
    tallies: tuple[Tally, ...]
    resamples: int
    seed: int
    test_sets: tuple[Summary, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return JSON data with a ``schema_version``; NaN becomes null. :meth:`from_json` restores the evaluation."""
        return {"schema_version": SCHEMA_VERSION, **json_data(self)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Evaluation:
        """Restore an evaluation from the data that :meth:`to_json` returned.

        Raises:
            UserError: the data have a different schema version, or are not an evaluation.
        """
        version = data.get("schema_version")
        if version != SCHEMA_VERSION:
            raise UserError(f"evaluation has schema_version {version!r}; this Outrider reads {SCHEMA_VERSION}")
        try:
            return Evaluation(
                overall=_summary(data["overall"]),
                levels=tuple(map(_summary, data["levels"])),
                tallies=tuple(Tally(**_numbers(tally)) for tally in data["tallies"]),
                resamples=data["resamples"],
                seed=data["seed"],
                test_sets=tuple(map(_summary, data.get("test_sets", ()))),  # earlier versions have no test sets
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise UserError(f"evaluation cannot be read: {error}") from error


def evaluate(
    problems: Sequence[Problem],
    sampled: Sequence[Rollout],
    greedy: Sequence[Rollout] = (),
    resamples: int = 2000,
    seed: int = 0,
) -> Evaluation:
    """Evaluate a policy from its verified rollouts, which may be in any order.

    ``sampled`` may have any number of responses per problem, including 0. ``greedy`` may have at most one response per
    problem. :class:`Tally` defines success and lists the responses that are excluded; :func:`bootstrap_mean` explains
    ``resamples`` and ``seed``.

    Degenerate cases: a mean is NaN if there is no problem to average over; its ``Interval.problems`` is then 0. A
    problem without samples counts in ``Summary.problems`` but not in the means.

    Raises:
        ValueError: two problems have the same id, a rollout has no verdict or belongs to an unknown problem, or a
            problem has two greedy rollouts.
    """
    samples_of, greedy_of = _by_problem(problems, sampled), _by_problem(problems, greedy)
    tallies = []
    for problem in problems:
        if len(greedy_of[problem.id]) > 1:
            raise ValueError(f"problem {problem.id} has more than one greedy rollout")
        tallies.append(Tally.of(problem, samples_of[problem.id], next(iter(greedy_of[problem.id]), None)))
    return of_tallies(tallies, resamples, seed)


def of_tallies(tallies: Sequence[Tally], resamples: int = 2000, seed: int = 0) -> Evaluation:
    """Evaluate a policy from tallies (counts per problem). The options and the degenerate cases are the same as in
    :func:`evaluate`.
    """
    if not any(t.votes for t in tallies):  # without this check, majority would be a mean of zeros
        tallies = [replace(t, majority=math.nan) for t in tallies]
    ks = powers_of_two(max((t.samples for t in tallies), default=0))
    levels, test_sets = by_level(tallies), by_test_set(tallies)
    return Evaluation(
        overall=_summarise("all", tallies, ks, resamples, seed),
        levels=tuple(_summarise(label, own, ks, resamples, seed) for label, own in levels.items()),
        test_sets=tuple(_summarise(name, own, ks, resamples, seed) for name, own in test_sets.items()),
        tallies=tuple(tallies),
        resamples=resamples,
        seed=seed,
    )


def by_level(tallies: Sequence[Tally]) -> dict[str, list[Tally]]:
    """Group tallies by the difficulty level of their problem (:attr:`Tally.label`), in natural order. The key ``""``
    has the problems with neither a level nor a test set.

    Degenerate cases: the result is empty if no problem has a level. A problem that has a test set but no level is
    excluded.
    """
    known = [t for t in tallies if t.label or not t.test_set]
    labels = sorted({t.label for t in known}, key=_natural)
    return {label: [t for t in known if t.label == label] for label in (labels if labels != [""] else [])}


def by_test_set(tallies: Sequence[Tally]) -> dict[str, list[Tally]]:
    """Group tallies by test set, in natural order. Tallies without a test set have the key "". The result is empty if
    there are fewer than two test sets.
    """
    names = sorted({t.test_set for t in tallies}, key=_natural)
    return {name: [t for t in tallies if t.test_set == name] for name in names} if len(names) > 1 else {}


def pass_values(tallies: Sequence[Tally], k: int) -> Floats:
    """Return pass@k for each problem; NaN if fewer than ``k`` samples of the problem could be verified."""
    return pass_at_k([t.scorable for t in tallies], [t.successes for t in tallies], k)


def _summarise(level: str, tallies: Sequence[Tally], ks: Sequence[int], resamples: int, seed: int) -> Summary:
    samples = sum(t.samples for t in tallies)
    tokens = sum(t.tokens for t in tallies)
    return Summary(
        level=level,
        pass_at={k: bootstrap_mean(pass_values(tallies, k), resamples, seed) for k in ks},
        majority=bootstrap_mean([t.majority for t in tallies], resamples, seed),
        greedy=bootstrap_mean([t.greedy for t in tallies], resamples, seed),
        problems=len(tallies),
        samples=samples,
        scorable=sum(t.scorable for t in tallies),
        voteless=sum(t.votes == 0 and t.majority == 0 for t in tallies),
        truncated=_ratio(sum(t.truncated for t in tallies), samples),
        unparseable=_ratio(sum(t.unparseable for t in tallies), samples),
        timeouts=sum(t.timeouts for t in tallies),
        errors=sum(t.errors for t in tallies),
        entropy=_ratio(sum(t.entropy_sum for t in tallies), sum(t.entropy_tokens for t in tallies)),
        length=_ratio(tokens, samples),
        generated_tokens=tokens + sum(t.greedy_tokens for t in tallies),
    )


def _by_problem(problems: Sequence[Problem], rollouts: Sequence[Rollout]) -> dict[str, list[Rollout]]:
    results: dict[str, list[Rollout]] = {p.id: [] for p in problems}
    if len(results) < len(problems):
        raise ValueError("two problems of the evaluation share an id")
    for rollout in rollouts:
        if rollout.problem_id not in results:
            raise ValueError(f"rollout {rollout.id} belongs to no problem of the evaluation")
        results[rollout.problem_id].append(rollout)
    return results


def _natural(label: str) -> list[tuple[int, str]]:
    """Return a sort key that puts level 9 before level 10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", label)]


def _ratio(total: float, count: int) -> float:
    return total / count if count else math.nan


def _summary(data: Mapping[str, Any]) -> Summary:
    fields = _numbers(data)
    fields["pass_at"] = {int(k): _interval(interval) for k, interval in data["pass_at"].items()}
    return Summary(**fields | {name: _interval(data[name]) for name in ("majority", "greedy")})


def _interval(data: Mapping[str, Any]) -> Interval:
    return Interval(**_numbers(data))


def _numbers(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: math.nan if value is None else value for key, value in data.items()}
