"""Arms of a bench from successes per seed and problem."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.bench.results import Arm, Point
from outrider.measure.evaluation import Evaluation, of_tallies
from outrider.measure.tally import Tally


def tally(problem: str, successes: int, samples: int = 4, scorable: int | None = None) -> Tally:
    zeros = dict.fromkeys(("votes", "truncated", "unparseable", "timeouts", "errors", "greedy_tokens"), 0)
    verified = samples if scorable is None else scorable
    return Tally(
        problem, "", samples, scorable=verified, successes=successes, majority=0.0, greedy=0.0,
        tokens=10, entropy_sum=successes + 1.0, entropy_tokens=10, **zeros,
    )  # fmt: skip


def evaluation(
    successes: Sequence[int], prefix: str = "p", samples: int = 4, scorable: Sequence[int] | None = None
) -> Evaluation:
    verified = [samples] * len(successes) if scorable is None else scorable
    return of_tallies([tally(f"{prefix}{i}", c, samples, verified[i]) for i, c in enumerate(successes)], resamples=0)


def arm(
    name: str,
    *points: list[list[int]],
    seeds: tuple[int, ...] | None = None,
    samples: int = 4,
    scorable: Sequence[Sequence[int]] | None = None,
) -> Arm:
    """Points of rows (seeds) of successes per problem; 100 tokens and 10 steps between points.

    ``scorable`` has for each point how many samples of each problem were verified.
    """
    size = len(points[0])
    made = []
    for i, rows in enumerate(points):
        verified = None if scorable is None else scorable[i]
        evaluations = tuple(evaluation(row, "p", samples, verified) for row in rows)
        spent = ((10 * (i + 1),) * size, (100.0 * (i + 1),) * size, (1.0 * (i + 1),) * size)
        made.append(Point((i + 1) / len(points), evaluations, *spent))
    return Arm(name, tuple(range(size)) if seeds is None else seeds, tuple(made))


def before(successes: list[int], samples: int = 4, scorable: Sequence[int] | None = None) -> Arm:
    point = Point(0.0, (evaluation(successes, "p", samples, scorable),), (0,), (0.0,), (0.0,))
    return Arm("before training", (0,), (point,))
