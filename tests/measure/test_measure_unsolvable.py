"""Unsolved problems: regions against membership asked one by one, the bound against scipy, the fit against grids."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, betabinom

from outrider.errors import UserError
from outrider.measure.unsolvable import (
    PassRates,
    fit_pass_rates,
    overlap,
    pass_rate_bound,
    unsolved,
)

K = 4
COUNTS = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from([(4, 0), (4, 1), (9, 0), (3, 0), (3, 1), (0, 0)]))


def result(counts, k=K):
    ids = list(counts)
    return unsolved(ids, [counts[p][0] for p in ids], [counts[p][1] for p in ids], k)


@given(st.lists(COUNTS, min_size=2, max_size=4))
@settings(max_examples=50, deadline=None)
def test_every_problem_lies_in_the_one_region_of_the_models_that_fail_on_it(tables):
    names = ["base", "sft", "rl", "other"][: len(tables)]
    found = overlap({name: result(table) for name, table in zip(names, tables, strict=True)})
    assert len(found.regions) == 2 ** len(tables) - 1
    for problem in set().union(*tables):
        cells = [table.get(problem) for table in tables]
        decided = all(cell is not None and (cell[1] > 0 or cell[0] >= K) for cell in cells)
        assert (problem in found.excluded) == (not decided)
        failing = tuple(name for name, cell in zip(names, cells, strict=True) if decided and cell[1] == 0)
        assert (problem in found.solved_by_all) == (decided and not failing)
        for models, problems in found.regions.items():
            assert (problem in problems) == (decided and failing == models)
    assert sum(found.sizes.values()) + len(found.solved_by_all) + len(found.excluded) == len(set().union(*tables))


def test_four_models_by_hand():
    ids = list("abcde")
    one, two, three, four = ([0, 0, 0, 0, 1], [0, 0, 0, 1, 1], [0, 0, 1, 1, 1], [0, 1, 1, 1, 1])
    found = overlap({name: unsolved(ids, 8, c, 8) for name, c in zip("wxyz", (one, two, three, four), strict=True)})
    assert {models: set(problems) for models, problems in found.regions.items() if problems} == {
        ("w", "x", "y", "z"): {"a"},
        ("w", "x", "y"): {"b"},
        ("w", "x"): {"c"},
        ("w",): {"d"},
    }
    assert found.solved_by_all == {"e"}
    assert list(found.sizes)[-1] == ("w", "x", "y", "z")


def test_what_cannot_be_compared_is_refused_in_one_sentence():
    one = result({"a": (4, 0)})
    with pytest.raises(UserError, match="2 to 4 models, not 1"):
        overlap({"base": one})
    with pytest.raises(UserError, match="not 5"):
        overlap(dict.fromkeys("vwxyz", one))
    with pytest.raises(UserError, match=r"different k \(4, 8\)"):
        overlap({"base": one, "rl": result({"a": (8, 0)}, k=8)})
    with pytest.raises(ValueError, match="share an id"):
        unsolved(["a", "a"], 4, 0, 4)


def test_too_few_rollouts_decide_only_what_they_solve():
    found = result({"a": (3, 0), "b": (3, 1), "c": (4, 0), "d": (8, 1)})
    assert (found.undecided, found.solved, found.unsolved) == ({"a"}, {"b", "d"}, {"c"})


@given(st.integers(1, 1000), st.floats(0.001, 0.5))
@settings(max_examples=30)
def test_the_bound_is_that_of_clopper_and_pearson_and_of_its_definition(k, alpha):
    bound = float(pass_rate_bound(k, alpha))
    assert bound == pytest.approx(beta.ppf(1 - alpha, 1, k), rel=1e-9)
    assert (1 - bound) ** k == pytest.approx(alpha)


def test_the_bound_of_the_papers_640_rollouts_and_of_none():
    assert pass_rate_bound([640, 0]).tolist() == pytest.approx([3 / 640, 1.0], rel=5e-3)  # the rule of three
    for k, alpha in ((-1, 0.05), (8, 0.0), (8, 1.0)):
        with pytest.raises(ValueError, match="a bound needs"):
            pass_rate_bound(k, alpha)


@given(st.floats(0.01, 20), st.floats(0.01, 20), st.integers(0, 50), st.integers(0, 50))
@settings(max_examples=30)
def test_chances_are_those_of_the_beta_binomial(a, b, k, more):
    rates = PassRates(a, b, 1)
    after = betabinom.pmf(0, more, a, b + k)  # k failures make Beta(a, b) a Beta(a, b + k)
    assert rates.unlucky([k, k], more) == pytest.approx(2 * (1 - after), abs=1e-9)
    assert rates.unlucky([], more) == 0


@given(st.lists(st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), min_size=5, max_size=30))
@settings(max_examples=15, deadline=None)
def test_no_other_shape_within_the_bounds_is_likelier(counts):
    n, c = map(np.array, zip(*counts, strict=True))
    fit = fit_pass_rates(n, c)
    if not 0 < c.sum() < n.sum() or n.max() < 2:
        assert math.isnan(fit.a)
        return
    best = betabinom.logpmf(c, n, fit.a, fit.b).sum()
    for a in np.geomspace(1e-3, 1e4, 12):
        assert betabinom.logpmf(c, n, a, np.geomspace(1e-3, 1e4, 12)[:, None]).sum(axis=1).max() <= best + 1e-4


def test_the_fit_finds_the_rates_that_made_the_counts_and_foretells_who_is_unlucky():
    random = np.random.default_rng(0)
    rate = random.beta(0.4, 2.0, 20_000)
    n = random.choice([8, 16], 20_000)  # ragged
    c = random.binomial(n, rate)
    fit = fit_pass_rates([*n, 0], [*c, 0])
    assert fit.problems == 20_000
    assert (fit.a, fit.b) == pytest.approx((0.4, 2.0), rel=0.05)
    failed = c == 0
    solved_later = (1 - (1 - rate[failed]) ** 16).sum()
    assert fit.unlucky(n[failed], more=16) == pytest.approx(solved_later, rel=0.05)


@pytest.mark.parametrize(("n", "c"), [([8, 8], [0, 0]), ([8, 8], [8, 8]), ([1, 1], [0, 1]), ([0], [0])])
def test_counts_without_spread_fit_nothing(n, c):
    fit = fit_pass_rates(n, c)
    assert math.isnan(fit.a)
    assert math.isnan(fit.unlucky([8], more=8))
