"""At equal pass@1, steps or tokens: the value against interpolation by hand, the interval against a jackknife."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from arms import arm, before
from numpy.random import Generator, default_rng

from outrider.bench.crossed import difference
from outrider.bench.equal import at_equal, at_equal_pass1

SAMPLES = 4


def rows(x: Generator, rate: float, seeds: int, problems: int) -> list[list[int]]:
    """Successes of 4 samples; a problem's rate is spread widely about the mean."""
    rates_P = x.beta(3 * rate, 3 * (1 - rate), problems)
    return [x.binomial(SAMPLES, rates_P).tolist() for _ in range(seeds)]


def pass_at(successes: list[list[int]], k: int) -> float:
    missed = [[math.comb(SAMPLES - c, k) / math.comb(SAMPLES, k) for c in row] for row in successes]
    return 1 - float(np.mean(missed))


def by_hand(start: list[int], base: list[list[list[int]]], other: list[list[list[int]]], k: int) -> float:
    """numpy's interpolation of both lines at the lower of their two highest; rising lines only."""

    def line(points: list[list[list[int]]], k: int) -> list[float]:
        return [pass_at(p, k) for p in ([start], *points)]

    level = min(line(base, 1)[-1], line(other, 1)[-1])
    ends = [np.interp(level, line(points, 1), line(points, k)) for points in (base, other)]
    return float(ends[1] - ends[0])


def case(
    seed: int, seeds: int, problems: int, ends: tuple[float, float]
) -> tuple[list[int], list[list[list[int]]], list[list[list[int]]]]:
    x = default_rng(seed)
    start = rows(x, 0.1, 1, problems)[0]
    base = [rows(x, 0.3, seeds, problems), rows(x, ends[0], seeds, problems)]
    return start, base, [rows(x, 0.25, seeds, problems), rows(x, ends[1], seeds, problems)]


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("ends", [(0.6, 0.45), (0.45, 0.6)])
def test_the_value_is_the_distance_of_two_lines(ends: tuple[float, float], k: int) -> None:
    start, base, other = case(0, 3, 40, ends)
    found = at_equal_pass1(before(start), arm("a", *base), arm("b", *other), k)
    assert found.change.value == pytest.approx(by_hand(start, base, other, k))
    turned = at_equal_pass1(before(start), arm("b", *other), arm("a", *base), k)
    assert (turned.change.value, turned.change.error) == pytest.approx((-found.change.value, found.change.error))


@pytest.mark.parametrize("ends", [(0.6, 0.45), (0.45, 0.6)])
def test_the_error_is_that_of_leaving_out_one_problem_after_the_other(ends: tuple[float, float]) -> None:
    """With one seed, the jackknife over problems moves the place of the level on both lines, as new problems would."""
    start, base, other = case(1, 1, 150, ends)
    found = at_equal_pass1(before(start), arm("a", *base), arm("b", *other), 4)

    def without(p: int) -> float:
        def cut(points: list[list[list[int]]]) -> list[list[list[int]]]:
            return [[row[:p] + row[p + 1 :] for row in seeds] for seeds in points]

        return by_hand(start[:p] + start[p + 1 :], cut(base), cut(other), 4)

    values = np.array([without(p) for p in range(150)])
    jackknife = math.sqrt(149 / 150 * ((values - values.mean()) ** 2).sum())
    assert found.change.error == pytest.approx(jackknife, rel=0.03)


def test_recipes_on_one_line_do_not_differ_however_far_they_went() -> None:
    """pass@1 of 1/4, then 1/2, on the same problems: one went half as far."""
    base, half = arm("a", [[0, 2, 0, 2]] * 2, [[0, 4, 0, 4]] * 2), arm("b", [[0, 1, 0, 1]] * 2, [[0, 2, 0, 2]] * 2)
    found = at_equal_pass1(before([0, 0, 0, 0]), base, half, 4)
    assert (found.pass1, *found.change[:1], *found.change[3:5]) == (0.25, 0, 2, 4)


def test_the_highest_point_counts_where_a_recipe_falls_back() -> None:
    base = arm("a", [[2, 2]], [[4, 4]])
    fell = arm("b", [[3, 1]], [[1, 1]])
    found = at_equal_pass1(before([0, 0]), base, fell, 4)
    assert found.change.value == 0  # at 1/2, where both solve both problems; at its end, 1/4, it would be 1/2 above


def test_who_never_improves_has_no_such_place() -> None:
    for base, other in (([3, 3], [1, 2]), ([1, 2], [3, 3])):
        found = at_equal_pass1(before([2, 2]), arm("a", [base]), arm("b", [other]), 4)
        assert math.isnan(found.pass1)
        assert math.isnan(found.change.value)
        assert not found.change.excludes_zero


@pytest.mark.parametrize("samples", [5, 10, 12])
def test_a_recipe_does_not_differ_from_itself(samples: int) -> None:
    """Means that are equal have to come out equal: a tie that rounding breaks puts the place at a wrong point."""
    for seed in range(20):
        x = default_rng(seed)
        points = [x.integers(low, samples, (3, 7)).tolist() for low in (0, 2, 1)]  # the top in the middle
        start = before([0] * 7, samples)
        found = at_equal_pass1(start, arm("a", *points, samples=samples), arm("b", *points, samples=samples), 4)
        assert (found.change.value, found.change.low, found.change.high) == (0, 0, 0)


def test_problems_that_are_not_known_everywhere_are_excluded_for_every_k() -> None:
    """Of the second problem, b has 2 scorable samples at its end: enough for pass@2, too few for pass@4."""
    base, short = arm("a", [[2, 4]], [[4, 4]]), arm("b", [[1, 0]], [[3, 0]], scorable=[[4, 4], [4, 2]])
    for k in (2, 4):
        found = at_equal_pass1(before([0, 0]), base, short, k)
        alone = at_equal_pass1(before([0]), arm("a", [[2]], [[4]]), arm("b", [[1]], [[3]]), k)
        assert (found.pass1, found.change.problems) == (0.75, 1)
        assert found.change.value == pytest.approx(alone.change.value)
    none = arm("b", [[1, 1]], scorable=[[1, 1]])
    assert math.isnan(at_equal_pass1(before([0, 0]), base, none, 2).change.value)


@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("spent", ["steps", "tokens"])
def test_at_equal_steps_every_run_is_taken_where_it_has_made_as_many(spent: str, k: int) -> None:
    """The shortest of all four runs has made 8; each of the others is between two of its own points there."""
    _, base, other = case(2, 2, 30, (0.6, 0.5))
    made = {"a": [(5, 6), (20, 24)], "b": [(4, 3), (9, 8)]}
    arms = {}
    for name, points in (("a", base), ("b", other)):
        whole = arm(name, *points)
        given = [replace(p, **{spent: at}) for p, at in zip(whole.points, made[name], strict=True)]
        arms[name] = replace(whole, points=tuple(given))
    ends = {}
    for name, points in (("a", base), ("b", other)):
        heights = [[pass_at([points[0][s]], k), pass_at([points[1][s]], k)] for s in (0, 1)]
        places = [[made[name][0][s], made[name][1][s]] for s in (0, 1)]
        ends[name] = np.mean([np.interp(8, x, y) for x, y in zip(places, heights, strict=True)])
    found = at_equal(spent, arms["a"], arms["b"], k)
    assert found.spent == 8
    assert found.change.value == pytest.approx(ends["b"] - ends["a"])
    turned = at_equal(spent, arms["b"], arms["a"], k)
    assert (turned.change.value, turned.change.error) == pytest.approx((-found.change.value, found.change.error))


def test_runs_of_equally_many_steps_differ_at_their_ends() -> None:
    _, base, other = case(3, 3, 30, (0.6, 0.5))
    first, second = arm("a", *base), arm("b", *other)
    found = at_equal("steps", first, second, 4)
    ends = difference(first.end.measured("pass@4"), second.end.measured("pass@4"))
    assert found.change == pytest.approx(ends)


def test_a_run_that_ends_before_another_is_measured_is_not_compared() -> None:
    """The line from before training to the first evaluation says nothing of what lies between."""
    _, base, other = case(4, 2, 30, (0.6, 0.5))
    short = arm("b", *other[:1])
    early = replace(short, points=(replace(short.end, steps=(9, 10)),))
    assert math.isnan(at_equal("steps", arm("a", *base), early, 1).change.value)
    assert not math.isnan(at_equal("steps", arm("a", *base), short, 1).change.value)


def test_what_is_not_known_everywhere_is_excluded_at_equal_steps_too() -> None:
    base, short = arm("a", [[2, 4]]), arm("b", [[1, 0]], scorable=[[4, 2]])
    assert at_equal("steps", base, short, 4).change.problems == 1
    none = arm("b", [[1, 1]], scorable=[[1, 1]])
    assert math.isnan(at_equal("steps", base, none, 2).change.value)
