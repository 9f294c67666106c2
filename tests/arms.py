"""Arms of a bench from successes per seed and problem."""

from __future__ import annotations

from outrider.bench.results import Arm, Point
from outrider.measure.evaluation import Evaluation, _summarise
from outrider.measure.tally import Tally


def tally(problem: str, successes: int, samples: int = 4, greedy: float = 0.0) -> Tally:
    zeros = dict.fromkeys(("votes", "truncated", "unparseable", "timeouts", "errors", "greedy_tokens"), 0)
    return Tally(
        problem, "", samples, scorable=samples, successes=successes, majority=0.0, greedy=greedy,
        tokens=10, entropy_sum=successes + 1.0, entropy_tokens=10, **zeros,
    )  # fmt: skip


def evaluation(successes: list[int], prefix: str = "p") -> Evaluation:
    tallies = tuple(tally(f"{prefix}{i}", c) for i, c in enumerate(successes))
    return Evaluation(_summarise("all", tallies, (1, 2, 4), 0, 0), (), tallies, 0, 0)


def arm(name: str, *points: list[list[int]], seeds: tuple[int, ...] | None = None, share: float = 100.0) -> Arm:
    """Points of rows (seeds) of successes per problem, of 4 samples; 100 tokens and 10 steps between points."""
    size = len(points[0])
    made = [
        Point((i + 1) / len(points), tuple(map(evaluation, rows)), (10 * (i + 1),) * size, (share * (i + 1),) * size,
              (1.0 * (i + 1),) * size)
        for i, rows in enumerate(points)
    ]  # fmt: skip
    return Arm(name, tuple(range(size)) if seeds is None else seeds, tuple(made))


def before(successes: list[int]) -> Arm:
    return Arm("before training", (0,), (Point(0.0, (evaluation(successes),), (0,), (0.0,), (0.0,)),))
