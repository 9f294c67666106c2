"""Problems by chance: populations of pass rates, and what evaluations and groups of them hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from outrider.measure.tally import Tally

Floats = NDArray[np.float64]
Ends = tuple[float, float]
Drawn = dict[str, Ends]  # an interval for each quantity
MANY = 400_000  # problems that stand for all


class Population(NamedTuple):
    """A set of problems: how many are drawn, and the pass rates that they are drawn from."""

    problems: int
    rates: Callable[[Generator, int], Floats]


def spread(rng: Generator, n: int) -> Floats:
    return rng.beta(0.6, 0.9, n)


def few_solvable(rng: Generator, n: int) -> Floats:
    return np.where(rng.random(n) < 0.05, rng.uniform(0.2, 0.8, n), 0.0)


POPULATIONS = {
    "200 problems": Population(200, spread),
    "30 problems": Population(30, spread),
    "8 problems": Population(8, spread),
    "100 problems, 5 % solvable": Population(100, few_solvable),
    "100 problems, 95 % always solved": Population(100, lambda rng, n: 1 - few_solvable(rng, n)),
    "30 problems, 5 % solvable": Population(30, few_solvable),
}


def improved(rng: Generator, p: Floats) -> Floats:
    """The pass rates after a training: better in the mean, and worse for some; what cannot be solved stays so."""
    with np.errstate(divide="ignore"):
        logits = np.log(p) - np.log1p(-p) + rng.normal(0.4, 0.8, len(p))
    return 1 / (1 + np.exp(-logits))


class Counts(NamedTuple):
    """What ``n`` samples of each problem gave."""

    correct: NDArray[np.int64]
    majority: Floats
    greedy: Floats
    tokens: Floats
    nats: Floats


def sampled(rng: Generator, p: Floats, n: int, hard: Floats | None = None) -> Counts:
    """Samples, the election among one gold answer and three wrong ones, a greedy response, tokens and entropy.

    ``hard``: how long and how unsure responses to a problem are; drawn if not given.
    """
    wrong = np.array([0.6, 0.3, 0.1])
    votes = rng.multinomial(n, np.column_stack([p, (1 - p)[:, None] * wrong]))
    most = votes.max(axis=1)
    majority = (votes[:, 0] == most) / (votes == most[:, None]).sum(axis=1)
    hard = rng.normal(size=len(p)) if hard is None else hard
    tokens = np.round(100 * n * np.exp(0.6 * hard + 0.1 * rng.normal(size=len(p)))) + 1
    return Counts(
        correct=votes[:, 0],
        majority=majority,
        greedy=(rng.random(len(p)) < p).astype(float),
        tokens=tokens,
        nats=tokens * 0.3 * np.exp(0.3 * hard + 0.1 * rng.normal(size=len(p))),
    )


def tallies(found: Counts, n: int) -> list[Tally]:
    """An evaluation's counts, as a run keeps them."""
    rows = zip(*(column.tolist() for column in found), strict=True)
    return [
        Tally(f"p{i}", "", n, n, int(c), n, majority, greedy, 0, 0, 0, 0, int(tokens), 1, nats, int(tokens))
        for i, (c, majority, greedy, tokens, nats) in enumerate(rows)
    ]


def ends(found: Any) -> Ends:
    """Lower and upper bound of anything with a low and a high."""
    return float(found.low), float(found.high)
