"""Computes a policy's scores for all problems, each test set and each difficulty level: pass@k, greedy success,
majority vote and mG-Pass@k."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from outrider.measure import Evaluation, Interval, Summary, Tally, bootstrap_mean, g_pass_at_k, mg_pass_at_k
from outrider.measure.evaluation import by_level, by_test_set
from outrider.measure.passk import shown_ks
from outrider.report.content import CellValue
from outrider.report.sections.frontier import defined, known_interval

TAUS = (0.5, 0.75)  # required shares of correct samples; pass@k requires one correct sample, pass^k all


class EvaluationPart(NamedTuple):
    """A part of an evaluation's problems.

    Attributes:
        kind: "test set", "level" or "" for all problems.
        name: label in a table.
    """

    kind: str
    name: str
    summary: Summary
    tallies: Sequence[Tally]


def parts_of(evaluation: Evaluation) -> list[EvaluationPart]:
    """Return the parts of an evaluation: each test set, each level, and all problems. Test sets are omitted if there is
    only one."""
    parts = []
    for kind, summaries, tallies in (
        ("test set", evaluation.test_sets, by_test_set(evaluation.tallies)),
        ("level", evaluation.levels, by_level(evaluation.tallies)),
    ):
        parts += [EvaluationPart(kind, one.level or "(none)", one, tallies.get(one.level, ())) for one in summaries]
    return [*parts, EvaluationPart("", "all", evaluation.overall, evaluation.tallies)]


def largest_k(evaluation: Evaluation) -> int:
    """Return the maximum k with a known pass@k; 0 if no pass@k is known."""
    return max(defined(evaluation.overall.pass_at), default=0)


def names_of(evaluation: Evaluation) -> list[str]:
    """Return the column names of :func:`cells_of`."""
    k = largest_k(evaluation)
    reliable = [f"mG-Pass@{k}"] if k > 1 else []
    return [*(f"pass@{k}" for k in shown_ks(defined(evaluation.overall.pass_at))), "greedy", "majority", *reliable]


def cells_of(part: EvaluationPart, evaluation: Evaluation) -> list[CellValue]:
    """Return a part's scores with their intervals; None (an empty cell) if a score is unknown."""
    none, k = Interval(np.nan, np.nan, np.nan, 0), largest_k(evaluation)
    summary = part.summary
    known = [summary.pass_at.get(k, none) for k in shown_ks(defined(evaluation.overall.pass_at))]
    known += [summary.greedy, summary.majority]
    if k > 1:
        known.append(_mean(mg_pass_at_k(*_counts(part.tallies), k), evaluation))
    return [known_interval(interval) for interval in known]


def reliability(evaluation: Evaluation) -> Iterator[tuple[int, list[CellValue]]]:
    """Yield each k above 1 for which pass@k is known, with a list of scores: pass@k, G-Pass@k at each threshold in
    ``TAUS``, pass^k and mG-Pass@k."""
    n, c = _counts(evaluation.tallies)
    for k, at_least_one in defined(evaluation.overall.pass_at).items():
        if k > 1:
            values = [*(g_pass_at_k(n, c, k, tau) for tau in (*TAUS, 1.0)), mg_pass_at_k(n, c, k)]
            yield k, [at_least_one, *(known_interval(_mean(one, evaluation)) for one in values)]


def _counts(tallies: Sequence[Tally]) -> tuple[list[int], list[int]]:
    return [t.scorable for t in tallies], [t.successes for t in tallies]


def _mean(values_P: np.ndarray, evaluation: Evaluation) -> Interval:
    return bootstrap_mean(values_P, evaluation.resamples, evaluation.seed)
