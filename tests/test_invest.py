"""Invest: what is believed of problems, and what a step's tokens buy by it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from outrider.explore import Invest
from outrider.explore.belief import MEMORIES, Belief, Rate, Visits
from outrider.record import Group, Problem
from scripted import members

# Beliefs of one rate

RATES = st.builds(Rate, st.floats(0.05, 20), st.floats(0.05, 20))


@given(RATES, st.integers(0, 3), st.integers(0, 7))
def test_a_moment_is_an_expectation(rate: Rate, i: int, j: int) -> None:
    """By the chance of i successes and j failures in that order, which is what it is."""
    assert rate.moment(i, j) == pytest.approx(np.exp(rate.log_chance(i, j)), rel=1e-9)


def test_a_moment_by_quadrature() -> None:
    p = (np.arange(200_000) + 0.5) / 200_000
    density = p ** (2.5 - 1) * (1 - p) ** (4.0 - 1)
    assert Rate(2.5, 4.0).moment(1, 3) == pytest.approx((density * p * (1 - p) ** 3).sum() / density.sum(), rel=1e-6)


# Beliefs that are learnt


def visited(rates: Sequence[float], n: int, seed: int, level: str = "3", step: int = 1) -> list[Group]:
    """Groups of problems with these pass rates; a rollout has three tokens."""
    rng, made = np.random.default_rng(seed), []
    for i, rate in enumerate(rates):
        problem = Problem(f"{level}-{step}-{i}", "?", level=level)
        ends = "".join("1" if rng.random() < rate else "0" for _ in range(n))
        made.append(Group(problem, f"train:{step}:{problem.id}", tuple(members(ends, problem, step))))
    return made


@pytest.mark.parametrize(("a", "b"), [(0.4, 1.0), (0.2, 9.0), (3.0, 3.0)])
def test_the_prior_of_a_level_is_the_one_its_problems_are_drawn_from(a: float, b: float) -> None:
    """From four rollouts of each of 4,000 problems, whose own spread is 4 % of E[p (1 - p)] where few are solved."""
    belief = Belief()
    belief.learn(visited(np.random.default_rng(0).beta(a, b, 4000).tolist(), 4, seed=1))
    rate = belief.rate(Problem("new", "?", level="3"))
    assert rate.mean == pytest.approx(a / (a + b), abs=0.01)
    assert rate.moment(1, 1) == pytest.approx(Rate(a, b).moment(1, 1), rel=0.12)


def test_what_is_believed_is_calibrated() -> None:
    """Of problems believed to be solved with a chance of about x, a share of about x is: with no past, and with one."""
    rng, belief = np.random.default_rng(2), Belief()
    parameters = {"3": (0.4, 1.0), "4": (0.25, 4.0), "5": (0.2, 9.0)}
    for step in range(40):
        for level, (a, b) in parameters.items():
            belief.learn(visited(rng.beta(a, b, 10).tolist(), 6, seed=1000 * step + int(level), level=level, step=step))
    told, rates = [], []
    for level, (a, b) in parameters.items():
        for i, rate in enumerate(rng.beta(a, b, 3000)):
            problem, tries = Problem(f"{level}-new-{i}", "?", level=level), i % 3 * 4
            prior = belief.rate(problem)
            successes = int(rng.binomial(tries, rate))
            told.append(Rate(prior.a + successes, prior.b + tries - successes).mean)
            rates.append(rate)
    order, told, rates = np.argsort(told), np.array(told), np.array(rates)
    for part in np.array_split(order, 10):
        assert told[part].mean() == pytest.approx(rates[part].mean(), abs=0.025)
    assert told.std() > 0.1, "they differ, and not for nothing"


def test_a_problems_own_past_counts_beside_its_level() -> None:
    [known] = visited([1.0], 8, seed=0)
    belief = Belief()
    belief.learn([known, *visited([0.0] * 30, 8, seed=1, step=2)])
    level = belief.rate(Problem("new", "?", level="3"))
    own = belief.rate(known.problem)
    assert (own.a, own.b) == (pytest.approx(level.a + 8 * belief.memory), pytest.approx(level.b))


@pytest.mark.parametrize("moves", [False, True])
def test_how_fast_the_past_goes_out_of_date_is_measured(moves: bool) -> None:
    """Where pass rates stay, next to nothing is forgotten; where they rise from 0.1 to 0.9, the oldest."""
    belief, rng = Belief(), np.random.default_rng(5)
    for step in range(60):
        mean = 0.1 + 0.8 * step / 59 if moves else 0.3
        belief.learn(visited(rng.beta(20 * mean, 20 * (1 - mean), 24).tolist(), 6, seed=step, step=step))
    assert belief.memory in MEMORIES
    assert (belief.memory <= 0.93) == moves
    believed = belief.rate(Problem("new", "?", level="3")).mean
    assert believed == pytest.approx(0.9 if moves else 0.3, abs=0.1), "one memory for ever would say 0.5"


def test_prices_are_those_of_the_level_or_of_all() -> None:
    belief = Belief()
    assert belief.price(Problem("a", "?", level="3")) == 1.0
    belief.learn(visited([0.5] * 4, 2, seed=0))
    long = Problem("long", "?", level="6")
    nine = {"token_ids": np.full(9, 5, np.int32), "logprobs_T": np.zeros(9, np.float32)}
    belief.learn([Group(long, "train:2:long", tuple(members("01", long, 2, **nine)))])
    assert belief.price(Problem("b", "?", level="3")) == pytest.approx(3)
    assert belief.price(Problem("b", "?", level="6")) == pytest.approx(9)
    assert 3 < belief.price(Problem("b", "?", level="7")) < 9


def test_what_nobody_could_judge_and_lone_rollouts_teach_no_spread() -> None:
    problem, belief = Problem("p", "?", level="3"), Belief()
    belief.learn([Group(problem, "train:1:p", tuple(members("ee", problem)))])
    assert belief.rate(problem) == pytest.approx((1, 1))
    assert np.isnan(belief.surprise)
    belief.learn([Group(problem, "train:2:p", tuple(members("1", problem, 2)))])
    one = Visits(1.0, 1.0, 0.0, 0.0, 1.0, 3.0)
    assert belief.rate(Problem("q", "?", level="3")) == one.prior
    assert belief.surprise == pytest.approx(np.log(2))


def test_a_belief_goes_on_where_it_was_left() -> None:
    one, other = Belief(), Belief()
    for step in range(4):
        one.learn(visited([0.1, 0.5, 0.9], 4, seed=step, step=step % 2))
    other.load_state_dict(json.loads(json.dumps(one.state_dict())))
    assert one == other
    for belief in (one, other):
        belief.learn(visited([0.3] * 5, 4, seed=9, step=9))
    assert one == other
    assert one.surprise == other.surprise


# The allocation


def variance(spreads: Sequence[float], counts: Sequence[int]) -> float:
    return sum(v / (n - 1) for v, n in zip(spreads, counts, strict=True))


@given(st.lists(st.sampled_from([0.0, 0.01, 0.05, 0.2, 0.25]), min_size=1, max_size=4), st.integers(2, 4))
def test_at_one_price_no_allocation_has_less_variance(spreads: list[float], n: int) -> None:
    counts = Invest(n=n).shares(spreads, [7.0] * len(spreads), list(range(len(spreads))))
    assert sum(counts) == n * len(spreads)
    others = itertools.product(range(2, n * len(spreads) + 1), repeat=len(spreads))
    best = min(variance(spreads, each) for each in others if sum(each) == sum(counts))
    assert variance(spreads, counts) == pytest.approx(best)


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.01, 0.1, 0.25]), st.sampled_from([2, 3, 7])), min_size=1, max_size=3),
    st.integers(2, 4),
)
def test_at_different_prices_none_has_less_that_costs_a_rollout_less(problems: list[tuple[float, int]], n: int) -> None:
    """What is spent is the price of n for everybody, but for less than one rollout."""
    spreads, prices = zip(*problems, strict=True)
    counts = Invest(n=n).shares(spreads, prices, list(range(len(prices))))
    budget, paid = n * sum(prices), np.dot(counts, prices)
    assert 0 <= budget - paid < min(prices)
    ways = itertools.product(*(range(2, budget // price + 1) for price in prices))
    cheaper = [variance(spreads, each) for each in ways if np.dot(each, prices) <= budget - max(prices)]
    assert variance(spreads, counts) <= min(cheaper, default=np.inf) + 1e-12


def test_bounds_hold_and_what_cannot_be_spent_is_left() -> None:
    assert Invest(n=4, max_n=4).shares([0.2, 0.1], [3.0, 9.0], [0, 1]) == [4, 4]
    assert Invest(n=2).shares([0.2, 0.1], [3.0, 9.0], [0, 1]) == [2, 2]
    assert Invest().shares([], [], []) == []


@pytest.mark.parametrize("options", [{"k": 3}, {"min_n": 9}, {"n": 70}, {"max_n": 7}, {"k": 9, "min_n": 8}], ids=str)
def test_bounds_that_cannot_hold_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match="k <= min_n <= n <= max_n does not hold: k is"):
        Invest(**options)
