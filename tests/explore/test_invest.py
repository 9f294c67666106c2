"""The pass-rate model, and the allocation of a step's tokens by it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from outrider.config import load_recipe
from outrider.credit import Members, StatedGoal
from outrider.errors import UserError
from outrider.explore import Invest
from outrider.explore.invest import spread
from outrider.explore.pass_rate_model import MEMORIES, CalibrationStats, PassRateModel, Visits, noise
from outrider.explore.rate import Rate
from outrider.record import Group, Problem
from scripted import Unmoved, members

# One rate

RATES = st.builds(Rate, st.floats(0.05, 20), st.floats(0.05, 20))


@given(RATES, st.integers(0, 3), st.integers(0, 7))
def test_a_moment_is_an_expectation(rate: Rate, i: int, j: int) -> None:
    """By the chance of i successes and j failures in that order, which is what it is."""
    assert rate.moment(i, j) == pytest.approx(np.exp(rate.log_chance(i, j)), rel=1e-9)


def test_a_moment_by_quadrature() -> None:
    p = (np.arange(200_000) + 0.5) / 200_000
    density = p ** (2.5 - 1) * (1 - p) ** (4.0 - 1)
    assert Rate(2.5, 4.0).moment(1, 3) == pytest.approx((density * p * (1 - p) ** 3).sum() / density.sum(), rel=1e-6)


# The model over steps


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
    model = PassRateModel()
    model.learn(visited(np.random.default_rng(0).beta(a, b, 4000).tolist(), 4, seed=1))
    rate = model.predict(Problem("new", "?", level="3")).rate
    assert rate.mean == pytest.approx(a / (a + b), abs=0.01)
    assert rate.moment(1, 1) == pytest.approx(Rate(a, b).moment(1, 1), rel=0.12)


POPULATIONS = {"3": (0.4, 1.0), "4": (0.25, 4.0), "5": (0.2, 9.0)}
"""Pass rates of three levels, as parameters of a beta distribution."""


@pytest.mark.parametrize("returning", [False, True])
def test_predictions_are_calibrated(returning: bool) -> None:
    """Of problems with a predicted pass rate of about x, a share of about x is solved: where all are new, and where
    80 of a level come back every eight steps, so that their own past counts."""
    rng, model = np.random.default_rng(2), PassRateModel()
    sums = np.zeros((len(model.calibration), 4))
    pools = {level: rng.beta(a, b, (8, 10)) for level, (a, b) in POPULATIONS.items()}
    for step in range(64):
        for level, (a, b) in POPULATIONS.items():
            rates = pools[level][step % 8] if returning else rng.beta(a, b, 10)
            named = step % 8 if returning else step
            model.learn(visited(rates.tolist(), 6, seed=1000 * step + int(level), level=level, step=named))
            sums += np.array(model.calibration) if step else 0
    _, expected_C, variance_C, successes_C = sums[sums[:, 0] > 0].T
    assert len(expected_C) >= (6 if returning else 3), "predictions differ"
    assert (np.abs(successes_C - expected_C) < 3 * np.sqrt(variance_C)).all()


def test_predictions_with_a_history_are_calibrated() -> None:
    """Of 3,000 problems of each level, of which a third was seen never, a third with four rollouts and a third with
    eight: in tenths of the predictions, as many are solved."""
    rng, model = np.random.default_rng(2), PassRateModel()
    for level, (a, b) in POPULATIONS.items():
        model.learn(visited(rng.beta(a, b, 400).tolist(), 6, seed=int(level), level=level))
    problems = [Problem(f"{level}-new-{i}", "?", level=level) for level in POPULATIONS for i in range(3000)]
    true = np.array([rng.beta(*POPULATIONS[problem.level]) for problem in problems])
    seen = []
    for i, (problem, rate) in enumerate(zip(problems, true, strict=True)):
        samples = i % 3 * 4
        won = int(rng.binomial(samples, rate))
        rollouts = members("1" * won + "0" * (samples - won), problem, 2)
        seen += [Group(problem, f"train:2:{problem.id}", tuple(rollouts))] if samples else []
    model.learn(seen)
    predicted = np.array([model.predict(problem).rate.mean for problem in problems])
    for part in np.array_split(np.argsort(predicted), 10):
        assert predicted[part].mean() == pytest.approx(true[part].mean(), abs=0.025)
    assert predicted.std() > 0.1, "they differ, and not for nothing"


def test_a_problems_own_past_counts_beside_its_level() -> None:
    [known] = visited([1.0], 8, seed=0)
    model = PassRateModel(recalibration=Unmoved())
    model.learn([known, *visited([0.0] * 30, 8, seed=1, step=2)])
    for steps, step in enumerate((3, 4, 5)):
        level = model.predict(Problem("new", "?", level="3")).rate
        own = model.predict(known.problem).rate
        assert (own.a, own.b) == (pytest.approx(level.a + 8 * model.memory**steps), pytest.approx(level.b))
        model.learn(visited([0.5] * 30, 8, seed=step, step=step))
    model.learn([known])
    level, own = model.predict(Problem("new", "?", level="3")).rate, model.predict(known.problem).rate
    assert own.a == pytest.approx(level.a + 8 + 8 * model.memory**4)


def test_every_memory_remembers_a_problems_own_past_by_itself() -> None:
    """Two visits, of which the second comes two steps later: each memory scores as if it had always been in use."""
    model, problem = PassRateModel(), Problem("p", "?", level="3")
    for step, ends in ((1, "11"), (2, ""), (3, "00")):
        model.learn([Group(problem, f"train:{step}:p", tuple(members(ends, problem, step)))] if ends else [])
    for which, memory in enumerate(MEMORIES):
        level, own = model._rate(Problem("new", "?", level="3"), which), model._rate(problem, which)
        assert (own.a - level.a, own.b - level.b) == (pytest.approx(2 * memory**2), pytest.approx(2))


@pytest.mark.parametrize("moves", [False, True])
def test_how_fast_the_past_goes_out_of_date_is_measured(moves: bool) -> None:
    """Where pass rates stay, next to nothing is forgotten; where they rise from 0.1 to 0.9, the oldest."""
    model, rng = PassRateModel(), np.random.default_rng(5)
    for step in range(60):
        mean = 0.1 + 0.8 * step / 59 if moves else 0.3
        model.learn(visited(rng.beta(20 * mean, 20 * (1 - mean), 24).tolist(), 6, seed=step, step=step))
    assert model.memory in MEMORIES
    assert (model.memory <= 0.93) == moves
    predicted = model.predict(Problem("new", "?", level="3")).rate.mean
    assert predicted == pytest.approx(0.9 if moves else 0.3, abs=0.1), "one memory for ever would say 0.5"


def test_tokens_are_predicted_from_the_level_or_from_all_levels() -> None:
    model = PassRateModel()
    assert model.predict(Problem("a", "?", level="3")).tokens == 1.0
    model.learn(visited([0.5] * 4, 2, seed=0))
    long = Problem("long", "?", level="6")
    nine = {"token_ids": np.full(9, 5, np.int32), "logprobs_T": np.zeros(9, np.float32)}
    model.learn([Group(long, "train:2:long", tuple(members("01", long, 2, **nine)))])
    assert model.predict(Problem("b", "?", level="3")).tokens == pytest.approx(3)
    assert model.predict(Problem("b", "?", level="6")).tokens == pytest.approx(9)
    assert 3 < model.predict(Problem("b", "?", level="7")).tokens < 9


def test_a_level_of_which_nothing_is_left_costs_what_all_levels_do() -> None:
    """By the shortest memory after 40 steps: long before its sums are too small to be numbers."""
    model = PassRateModel()

    def learn(problem: Problem, step: int, tokens: int) -> None:
        ids = {"token_ids": np.full(tokens, 5, np.int32), "logprobs_T": np.zeros(tokens, np.float32)}
        model.learn([Group(problem, f"train:{step}:{problem.id}", tuple(members("01", problem, step, **ids)))])

    learn(Problem("a", "?", level="3"), 0, 3)
    for step in range(1, 41):
        learn(Problem("b", "?", level="6"), step, 9)
    model._scores = [0.0] + [-1.0] * (len(MEMORIES) - 1)
    assert model.memory == 0.5
    assert model.predict(Problem("c", "?", level="3")).tokens == pytest.approx(9)
    assert [each.tokens for each in model.levels()] == pytest.approx([9, 9])


def test_noise_is_expected_as_the_squared_norm_of_a_score() -> None:
    """Two tokens, each with logits of its own; the middle one, which was observed, moves nothing."""
    first, second = np.array([0.6, 0.3, 0.1]), np.array([0.9, 0.1])
    expected = found = 0.0
    for i, j in itertools.product(range(3), range(2)):
        chance = first[i] * second[j]
        scores = np.concatenate([np.eye(3)[i] - first, np.eye(2)[j] - second])
        expected += chance * scores @ scores
        ids = {"token_ids": np.array([i, 7, j], np.int32), "trainable_T": np.array([True, False, True])}
        logprobs_T = np.log(np.array([first[i], 0.2, second[j]], np.float32))
        [rollout] = members("1", logprobs_T=logprobs_T, **ids)
        found += chance * noise(rollout)
    assert found == pytest.approx(expected, rel=1e-6)


def test_the_noise_of_a_level_or_of_all() -> None:
    model = PassRateModel()
    assert model.predict(Problem("a", "?", level="3")).noise == 1.0
    model.learn(visited([0.5] * 4, 2, seed=0))
    sure = Problem("sure", "?", level="6")
    model.learn([Group(sure, "train:2:sure", tuple(members("01", sure, 2, logprobs_T=np.zeros(3, np.float32))))])
    assert model.predict(Problem("b", "?", level="3")).noise == pytest.approx(1.5), (
        "three tokens with a chance of one half"
    )
    assert model.predict(Problem("b", "?", level="6")).noise == 0
    assert 0 < model.predict(Problem("b", "?", level="7")).noise < 1.5


def test_what_nobody_could_verify_and_lone_rollouts_teach_no_spread() -> None:
    problem, model = Problem("p", "?", level="3"), PassRateModel()
    model.learn([Group(problem, "train:1:p", tuple(members("ee", problem)))])
    assert model.predict(problem).rate == pytest.approx((1, 1))
    assert np.isnan(model.surprise)
    model.learn([Group(problem, "train:2:p", tuple(members("1", problem, 2)))])
    one = Visits(1.0, 1.0, 0.0, 0.0, 1.0, 3.0)
    assert model.predict(Problem("q", "?", level="3")).rate == one.prior
    assert model.surprise == pytest.approx(np.log(2))


def test_a_resumed_model_continues_exactly() -> None:
    one, other = PassRateModel(), PassRateModel()
    for step in range(4):
        one.learn(visited([0.1, 0.5, 0.9], 4, seed=step, step=step % 2))
    other.load_state_dict(json.loads(json.dumps(one.state_dict())))
    assert one == other
    for model in (one, other):
        model.learn(visited([0.3] * 5, 4, seed=9, step=9))
    assert one == other
    assert one.surprise == other.surprise


# The allocation


@pytest.mark.parametrize(("n", "k"), [(2, 1), (5, 1), (2, 2), (5, 2), (4, 4), (6, 4)])
def test_the_spread_is_that_of_the_credit(n: int, k: int) -> None:
    """The mean square of the credit's own advantages over all groups, over many pass rates."""
    rate = Rate(0.7, 2.0)
    rates = np.random.default_rng(0).beta(rate.a, rate.b, 200_000)
    expected = 0.0
    for wins in range(n + 1):
        rewards_G = np.arange(n) < wins
        one = Members(rewards_G.astype(float), rewards_G, np.ones(n, np.int64))
        [a_G] = StatedGoal(k=k).of_batch([one])
        expected += comb(n, wins) * (rates**wins * (1 - rates) ** (n - wins)).mean() * (a_G**2).mean()
    assert spread(rate, n, k) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(("n", "k"), [(3, 1), (3, 2)])
def test_the_variance_is_noise_times_spread(n: int, k: int) -> None:
    """Over all groups of responses that are right or wrong whatever they say, of a problem that is surely at 0.3."""
    pi, p = np.array([0.6, 0.3, 0.1]), 0.3
    total = 0.0
    for draws in itertools.product(range(3), repeat=n):
        for ends in itertools.product((False, True), repeat=n):
            wins = np.array(ends)
            [a_G] = StatedGoal(k=k).of_batch([Members(wins.astype(float), wins, np.ones(n, np.int64))])
            estimate = a_G @ (np.eye(3)[list(draws)] - pi) / n
            total += pi[list(draws)].prod() * np.where(wins, p, 1 - p).prod() * (estimate @ estimate)
    known = Rate(p * 1e7, (1 - p) * 1e7)
    assert total == pytest.approx((1 - pi @ pi) * spread(known, n, k) / n, rel=1e-4)


def variance(spreads: Sequence[float]) -> Callable[[int, int], float]:
    return lambda i, n: spreads[i] / (n - 1)


def added(spreads: Sequence[float], counts: Sequence[int]) -> float:
    return sum(variance(spreads)(i, n) for i, n in enumerate(counts))


@given(
    st.lists(st.sampled_from([0.0, 0.01, 0.05, 0.2, 0.25]), min_size=1, max_size=4),
    st.integers(2, 4),
    st.floats(1.0, 2000.0),
)
def test_at_one_price_no_allocation_has_less_variance(spreads: list[float], n: int, price: float) -> None:
    """Nothing is lost to the rounding of token counts."""
    counts = Invest(n=n).shares(variance(spreads), [price] * len(spreads), list(range(len(spreads))))
    assert sum(counts) == n * len(spreads)
    others = itertools.product(range(2, n * len(spreads) + 1), repeat=len(spreads))
    best = min(added(spreads, each) for each in others if sum(each) == sum(counts))
    assert added(spreads, counts) == pytest.approx(best)


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.01, 0.1, 0.25]), st.sampled_from([2, 3, 7])), min_size=1, max_size=3),
    st.integers(2, 4),
)
def test_no_allocation_one_rollout_below_the_budget_has_less_variance(
    problems: list[tuple[float, int]], n: int
) -> None:
    """The budget is spent up to less than one rollout."""
    spreads, tokens = zip(*problems, strict=True)
    counts = Invest(n=n).shares(variance(spreads), tokens, list(range(len(tokens))))
    budget, paid = n * sum(tokens), np.dot(counts, tokens)
    assert 0 <= budget - paid < min(tokens)
    ways = itertools.product(*(range(2, budget // each + 1) for each in tokens))
    cheaper = [added(spreads, each) for each in ways if np.dot(each, tokens) <= budget - max(tokens)]
    assert added(spreads, counts) <= min(cheaper, default=np.inf) + 1e-12


@given(RATES, st.integers(1, 6))
def test_each_rollout_takes_off_less_than_the_one_before(rate: Rate, k: int) -> None:
    """Or taking them one by one would not be best."""
    left = [spread(rate, n, k) / n for n in range(max(k, 2), 24)]
    assert (np.diff(left, 2) >= -1e-12 * left[0]).all()
    assert (np.diff(left) <= 1e-12 * left[0]).all()


def test_where_nothing_is_left_to_chance_everybody_gets_as_many() -> None:
    assert Invest(n=4).shares(lambda i, n: 0.0, [5.0, 5.0, 5.0], [3, 1, 2]) == [4, 4, 4]


def test_bounds_hold_and_what_cannot_be_spent_is_left() -> None:
    assert Invest(n=4, max_n=4).shares(variance([0.2, 0.1]), [3.0, 9.0], [0, 1]) == [4, 4]
    assert Invest(n=2).shares(variance([0.2, 0.1]), [3.0, 9.0], [0, 1]) == [2, 2]
    assert Invest().shares(variance([]), [], []) == []


@pytest.mark.parametrize("options", [{"k": 3}, {"min_n": 9}, {"n": 70}, {"max_n": 7}, {"k": 9, "min_n": 8}], ids=str)
def test_bounds_that_cannot_hold_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match="k <= min_n <= n <= max_n does not hold: k is"):
        Invest(**options)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["explore.0.k=2"], "explore.0: k is 2, but credit.main has the pass@k objective with k = 1"),
        (["objective.aggregate=token_mean"], "credit.main estimates the gradient of a stated goal, which a denomin"),
        (["objective.aggregate=sequence_mean"], "credit.main estimates the gradient of a stated goal, which a denomin"),
        (["objective.aggregate.constant.denominator=with_signal"], "which a denominator that depends on the responses"),
        (["explore=[invest, replay]"], "gradient of a stated goal, which explore.1 may change: a problem"),
        (["explore=[{uniform: {n: 4}}, {prioritise: {total: 256}}]"], "which explore.1 may change"),
        (["explore=[uniform, refill]"], "which explore.1 may change"),
    ],
)
def test_a_recipe_that_would_change_the_goal_is_refused(overrides: list[str], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        load_recipe("invest", overrides)


@given(st.floats(0.1, 5), st.floats(0.1, 5), st.integers(0, 6), st.integers(0, 6))
def test_calibration_stats_have_the_moments_of_a_beta_binomial(a: float, b: float, won: int, lost: int) -> None:
    """By the chance of every number of successes."""
    predicted, n = CalibrationStats.of(Rate(a, b), won, lost), won + lost
    chances = [comb(n, s) * np.exp(Rate(a, b).log_chance(s, n - s)) for s in range(n + 1)]
    mean = sum(s * chance for s, chance in enumerate(chances))
    variance = sum((s - mean) ** 2 * chance for s, chance in enumerate(chances))
    assert tuple(predicted) == pytest.approx((n, mean, variance, won))


def test_calibration_is_per_step_and_class() -> None:
    """Before the first step every prediction is 1/2, where the last class begins; then less of what was unsolved."""
    model = PassRateModel()
    model.learn(visited([0.0] * 50, 4, seed=0))
    assert [each.rollouts for each in model.calibration] == [0, 0, 0, 0, 0, 0, 200]
    model.learn(visited([0.0] * 5, 4, seed=1, step=2))
    assert sum(each.rollouts for each in model.calibration[:3]) == 20
    numbers = model.numbers()
    assert sum(numbers[f"calibration_{i}_rollouts"] for i in range(7)) == 20
    assert sum(numbers[f"calibration_{i}_successes"] for i in range(7)) == 0
