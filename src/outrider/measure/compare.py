"""Paired comparison of two evaluations on the same problems, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from outrider.arrays import Floats
from outrider.errors import UserError
from outrider.measure.bootstrap import Interval, bootstrap_difference
from outrider.measure.evaluation import Evaluation, by_test_set, pass_values
from outrider.measure.tally import Tally


@dataclass(frozen=True, slots=True)
class Change:
    """Paired differences, after minus before, over all problems, over one difficulty level or over one test set.

    Attributes:
        level: the difficulty level or the test set; ``"all"`` for all problems.
        pass_at: the difference in pass@k for every k that both evaluations have; the key is k.
        majority, greedy: differences in majority@n and in the accuracy of greedy decoding.
        entropy: difference in nats per token, over problems for which both evaluations recorded entropies.
    """

    level: str
    pass_at: Mapping[int, Interval]
    majority: Interval
    greedy: Interval
    entropy: Interval


@dataclass(frozen=True, slots=True)
class Comparison:
    """Paired differences between two evaluations, on the problems that both evaluations have.

    Attributes:
        before, after: the two evaluations.
        overall: paired differences over all common problems.
        levels: paired differences per difficulty level, in the order of ``before``.
        test_sets: differences per test set; empty if the common problems come from a single test set.
        problems: number of common problems.
        unpaired: number of problems that only one evaluation has, which are excluded from all differences.
    """

    before: Evaluation
    after: Evaluation
    overall: Change
    levels: tuple[Change, ...]
    problems: int
    unpaired: int
    test_sets: tuple[Change, ...] = ()


def compare(before: Evaluation, after: Evaluation) -> Comparison:
    """Compare two evaluations, paired by problem id, with the bootstrap options of ``after``.

    Raises:
        UserError: the evaluations have no problem in common.
    """
    pairs = paired(before, after)
    if not pairs:
        raise UserError("the two evaluations have no problem in common, so they cannot be compared")
    ks = [k for k in before.overall.pass_at if k in after.overall.pass_at]
    levels = tuple(
        _change(summary.level, [pair for pair in pairs if pair[0].label == summary.level], ks, after)
        for summary in before.levels
        if summary.level in {other.level for other in after.levels}
    )
    named = by_test_set([b for b, _ in pairs])
    test_sets = (_change(name, [pair for pair in pairs if pair[0].test_set == name], ks, after) for name in named)
    unpaired = len(before.tallies) + len(after.tallies) - 2 * len(pairs)
    overall = _change("all", pairs, ks, after)
    return Comparison(before, after, overall, levels, len(pairs), unpaired, tuple(test_sets))


def paired(before: Evaluation, after: Evaluation) -> list[tuple[Tally, Tally]]:
    """Return a pair of tallies (before, after) for each problem that both evaluations have, in the order of ``before``.
    A tally has a problem's counts of responses and of successes.
    """
    known = {tally.problem: tally for tally in after.tallies}
    return [(tally, known[tally.problem]) for tally in before.tallies if tally.problem in known]


def _change(level: str, pairs: Sequence[tuple[Tally, Tally]], ks: Sequence[int], options: Evaluation) -> Change:
    before, after = [b for b, _ in pairs], [a for _, a in pairs]
    resamples, seed = options.resamples, options.seed
    return Change(
        level=level,
        pass_at={k: bootstrap_difference(pass_values(before, k), pass_values(after, k), resamples, seed) for k in ks},
        majority=bootstrap_difference([t.majority for t in before], [t.majority for t in after], resamples, seed),
        greedy=bootstrap_difference([t.greedy for t in before], [t.greedy for t in after], resamples, seed),
        entropy=_entropy(pairs, resamples, seed),
    )


def _entropy(pairs: Sequence[tuple[Tally, Tally]], resamples: int, seed: int) -> Interval:
    """Return the difference in mean entropy. Each mean gives all tokens equal weights: it is the sum of entropies over
    the number of tokens.

    The bootstrap averages one value per problem, so this ratio of sums is linearised. A problem with ``tokens`` tokens
    and the sum of entropies ``nats`` gets the value ``r + (nats - r * tokens) / m``. Over all problems, ``r`` is the
    mean entropy per token, and ``m`` the mean number of tokens per problem. The mean of the values is ``r``.
    """
    known = [pair for pair in pairs if all(t.entropy_tokens for t in pair)]
    if not known:
        return Interval(np.nan, np.nan, np.nan, 0)
    before_P, after_P = (_linear(side) for side in zip(*known, strict=True))
    return bootstrap_difference(before_P, after_P, resamples, seed)


def _linear(tallies: Sequence[Tally]) -> Floats:
    nats_P = np.array([t.entropy_sum for t in tallies])
    tokens_P = np.array([t.entropy_tokens for t in tallies], dtype=np.float64)
    ratio = nats_P.sum() / tokens_P.sum()
    return np.asarray(ratio + (nats_P - ratio * tokens_P) / tokens_P.mean())
