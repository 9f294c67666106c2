"""Cases of intervals of a bench: means over seeds and problems, differences, and differences at equal pass@1."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from _coverage import Case
from _problems import MANY, Drawn, Floats, ends, few_solvable, spread
from numpy.random import Generator

from outrider.bench.crossed import difference, estimate
from outrider.bench.equal import at_equal_pass1
from outrider.bench.results import Arm, Measured, Point
from outrider.measure.evaluation import of_tallies
from outrider.measure.tally import Tally

N = 16


def _logits(p: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(p) - np.log1p(-p)


def _rates(p: Floats, gain: float, rng: Generator, seeds: int, sd: float) -> Floats:
    """Pass rates ``[seeds, problems]`` after a training that adds ``gain`` to the logits: with each seed's luck, and
    that of each seed on each problem. Without seeds (0) every problem has another seed, as for the mean of all."""
    luck = rng.normal(0, sd, (seeds, 1) if seeds else (1, len(p)))
    own = rng.normal(0, 2 * sd, (seeds or 1, len(p)))
    return 1 / (1 + np.exp(-(_logits(p)[None, :] + gain + luck + own)))


def _crossed(seeds: int, problems: int, rates: Any, sd: float, rng: Generator) -> Drawn:
    p = rates(rng, problems)
    sides = [rng.binomial(N, _rates(p, gain, rng, seeds, sd)) / N for gain in (0.3, 0.6)]
    before, after = (Measured(side, np.ones_like(side)) for side in sides)
    return {"pass@1": ends(estimate(before)), "difference in pass@1": ends(difference(before, after))}


def _crossed_truth(rates: Any, sd: float) -> dict[str, float]:
    rng = np.random.default_rng(91)
    p = rates(rng, MANY)
    one, other = (float(_rates(p, gain, rng, 0, sd).mean()) for gain in (0.3, 0.6))
    return {"pass@1": one, "difference in pass@1": other - one}


def _normal(seeds: int, sds: tuple[float, float, float], rng: Generator) -> Drawn:
    """Effects of seeds, of problems, and the rest, all normal, on 300 problems."""
    of_seeds, of_problems, rest = sds
    z = rng.normal(0, of_seeds, (seeds, 1)) + rng.normal(0, of_problems, 300) + rng.normal(0, rest, (seeds, 300))
    return {"mean": ends(estimate(Measured(z, np.ones_like(z))))}


# ---- at equal pass@1


class Line(NamedTuple):
    """A recipe: how far it has gone along training at each point, and how many problems it has lost on the way."""

    gains: tuple[float, ...]
    lost: tuple[float, ...]


def _after(p: Floats, order: Floats, line: Line, i: int, rng: Generator, seeds: int) -> Floats:
    found = _rates(p, line.gains[i], rng, seeds, 0.06)
    return np.where(order < line.lost[i], 0.0, found)


def _evaluation(successes: Floats) -> Any:
    zeros = (0, 0, 0, 0)
    rows = [Tally(f"p{i}", "", N, N, int(c), N, 0.0, 0.0, *zeros, 1, 1, 1.0, 1) for i, c in enumerate(successes)]
    return of_tallies(rows, resamples=0)


def _arm(name: str, points: list[Floats]) -> Arm:
    seeds = len(points[0])
    made = [
        Point(i + 1.0, tuple(_evaluation(row) for row in rows), (1,) * seeds, (1.0,) * seeds, (1.0,) * seeds)
        for i, rows in enumerate(points)
    ]
    return Arm(name, tuple(range(seeds)), tuple(made))


def _equal(base: Line, other: Line, seeds: int, problems: int, rng: Generator) -> Drawn:
    p, order = spread(rng, problems), rng.random(problems)
    start = _arm("before", [rng.binomial(N, p)[None, :]])
    arms = [
        _arm(name, [rng.binomial(N, _after(p, order, line, i, rng, seeds)) for i in range(len(line.gains))])
        for name, line in (("base", base), ("other", other))
    ]
    return {f"pass@{N}": ends(at_equal_pass1(start, *arms, N).change)}


def _equal_truth(base: Line, other: Line) -> dict[str, float]:
    """The distance of the two lines through the populations' own means."""
    rng = np.random.default_rng(90)
    p, order = spread(rng, 2 * MANY), rng.random(2 * MANY)
    lines = []
    for line in (base, other):
        rates = [p, *(_after(p, order, line, i, rng, 0)[0] for i in range(len(line.gains)))]
        lines.append([(float(r.mean()), float((1 - (1 - r) ** N).mean())) for r in rates])
    level = min(max(x for x, _ in line) for line in lines)
    first, second = (_height(line, level) for line in lines)
    return {f"pass@{N}": second - first}


def _height(line: list[tuple[float, float]], level: float) -> float:
    """pass@k where a line first reaches a pass@1."""
    for (x0, y0), (x1, y1) in pairwise(line):
        if x1 >= level - 1e-12:
            return y0 + (level - x0) / (x1 - x0) * (y1 - y0)
    raise ValueError("the line never reaches the level")


LINES = {
    "both peak at the end, one higher": (Line((0.5, 1.0), (0.02, 0.04)), Line((0.4, 0.7), (0.0, 0.0))),
    "the base has two nearly equal points": (Line((0.6, 0.95), (0.0, 0.1)), Line((0.6, 1.2), (0.02, 0.02))),
    "the other has two nearly equal points": (Line((0.6, 1.2), (0.02, 0.02)), Line((0.6, 0.95), (0.0, 0.1))),
}
BENCH = "Tables and figures of `outrider bench` use these intervals, which include the variation of seeds and problems."
EQUAL = "`outrider bench` uses this interval for the difference in pass@k between two recipes at equal pass@1."
RECIPES = [
    *(
        Case("bench", BENCH, f"{seeds}, {problems} problems{extra}", partial(_crossed_truth, rates, sd),
             partial(_crossed, int(seeds[0]), problems, rates, sd))
        for seeds, problems, rates, extra, sd in (
            ("5 seeds", 300, spread, "", 0.1),
            ("3 seeds", 300, spread, "", 0.1),
            ("2 seeds", 300, spread, "", 0.1),
            ("1 seed", 300, spread, ", no seed effect", 0.0),
            ("1 seed", 300, spread, ", seed effect of SD 0.1", 0.1),
            ("5 seeds", 20, spread, "", 0.1),
            ("5 seeds", 100, few_solvable, ", 5 % solvable", 0.1),
        )
    ),
    *(
        Case("bench", BENCH, f"{seeds} seeds, 300 problems, normal effects: {', '.join(map(str, sds))}",
             lambda: {"mean": 0.0}, partial(_normal, seeds, sds))
        for sds in ((0.006, 0.1, 0.15), (0.015, 0.15, 0.35), (0.02, 0.05, 0.05))
        for seeds in (5, 3, 2)
    ),
    *(
        Case("bench at equal pass@1", EQUAL, f"5 seeds, 300 problems, {name}", partial(_equal_truth, *lines),
             partial(_equal, *lines, 5, 300), 250)
        for name, lines in LINES.items()
    ),
    Case("bench at equal pass@1", EQUAL, "3 seeds, 60 problems, both peak at the end, one higher",
         partial(_equal_truth, *LINES["both peak at the end, one higher"]),
         partial(_equal, *LINES["both peak at the end, one higher"], 3, 60), 250),
]  # fmt: skip
