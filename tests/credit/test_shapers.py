"""Shapers of the advantage: against plain loops straight from the papers' formulas.

What all components share (purity, permutations, members that are not valid) is in ``test_credit_matrix``, examples by
hand in ``credit_cases``.
"""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from outrider.config import load_recipe
from outrider.credit import (
    SHAPERS,
    Covariance,
    Difficulty,
    EntropyAdvantage,
    GroupMean,
    Members,
    NoBaseline,
    Perplexity,
    Polarity,
    Position,
    advantages,
)
from outrider.errors import UserError


def members(rewards, tokens, logprobs=(), entropies=(), **columns) -> Members:
    rewards = np.array(rewards, np.float64)
    return Members(
        rewards,
        rewards > 0,
        np.array(tokens, np.int64),
        logprobs_GT=[np.array(lp, np.float64) for lp in logprobs],
        entropies_GT=[np.array(h, np.float64) for h in entropies],
        **columns,
    )


def flat(group: Members, base) -> list[np.ndarray]:
    """One advantage per member as one per token."""
    return [np.full(int(n), float(a)) for n, a in zip(group.tokens_G, base, strict=True)]


def shaped(shaper, group: Members, base, step: int = 1) -> list[float]:
    """Advantages of the members' first tokens."""
    return [float(a[0]) if len(a) else 0.0 for a in shaper.shape(flat(group, base), group, step)]


@st.composite
def groups(draw) -> tuple[Members, list[np.ndarray]]:
    """A ragged group with everything recorded, and an advantage for each of its tokens."""
    tokens = draw(st.lists(st.integers(0, 5), min_size=1, max_size=7))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))

    def per_token() -> list[np.ndarray]:  # multiples of 1/16, so that differences are 0 or well above rounding
        return [rng.integers(-64, 65, n) / 16 for n in tokens]

    rewards = rng.choice([0.0, 1.0, math.nan], len(tokens))
    group = members(rewards, tokens, [-np.abs(x) for x in per_token()], [np.abs(x) for x in per_token()])
    return group, [a * valid for a, valid in zip(per_token(), group.valid_G, strict=True)]


# Perplexity


def test_an_outlier_is_weighed_with_the_statistics_of_the_others() -> None:
    """Log-perplexities 1, 2, 3, 4, 20: quartiles 2 and 4, so up to 7 is inside. Mean 2.5, variance 1.25 of the four."""
    group = members([1, 0, 0, 0, 0], [1] * 5, [[-1.0], [-2.0], [-3.0], [-4.0], [-20.0]])
    deviation = math.sqrt(1.25)
    expected = [1 - 0.1 * (x - 2.5) / deviation for x in (1, 2, 3, 4, 20)]
    assert shaped(Perplexity(weight=0.1, drop_outliers=True), group, [1.0] * 5) == pytest.approx(expected)
    below = members([1, 0, 0, 0, 0], [1] * 5, [[x - 21.0] for x in (1, 2, 3, 4, 20)])  # the same from 21 downwards
    expected = [1 + 0.1 * (x - 2.5) / deviation for x in (1, 2, 3, 4, 20)]
    assert shaped(Perplexity(weight=0.1, drop_outliers=True), below, [1.0] * 5) == pytest.approx(expected)
    assert shaped(Perplexity(weight=0.1), group, [1.0] * 5)[4] == pytest.approx(1 - 0.1 * 14 / math.sqrt(50))


def test_perplexities_that_agree_up_to_float32_weigh_nothing() -> None:
    near = float(np.nextafter(np.float32(-1), np.float32(0)))
    group = members([1, 0], [3, 3], [[-1.0] * 3, [near] * 3])
    assert shaped(Perplexity(weight=1), group, [1.0, -1.0]) == pytest.approx([1.0, -1.0], abs=1e-6)


def test_a_perplexity_clamp_must_hold_one() -> None:
    for clamp in (1.1, 1.2), (0.8, 0.9), (-0.1, 1.2):
        with pytest.raises(ValidationError, match="clamp is"):
            Perplexity(clamp=clamp)
    for clamp in (0.0, 1.0), (1.0, 1.2):
        assert Perplexity(clamp=clamp).clamp == clamp


@given(groups(), st.floats(-1, 1))
def test_perplexity_is_equations_7_and_11(drawn, alpha) -> None:
    group, base = drawn
    found = Perplexity(weight=alpha).shape(base, group, 1)
    log_ppl = {i: -sum(group.logprobs_GT[i]) / int(group.tokens_G[i]) for i in range(group.size) if group.valid_G[i]}
    for i in range(group.size):
        factor = 1.0
        if i in log_ppl:
            mean = sum(log_ppl.values()) / len(log_ppl)
            deviation = statistics.pstdev(log_ppl.values())
            factor = 1 - alpha * (log_ppl[i] - mean) / (deviation if deviation > 1e-6 else 1)
        assert found[i].tolist() == pytest.approx([float(a) * factor for a in base[i]])


# Position


def test_the_sign_of_the_report_would_be_a_constant() -> None:
    """With l + 0.5, as printed, every token gets nearly all of the bonus; as decided, an early one nearly none."""
    group = members([1], [100])
    [found] = Position().shape(flat(group, [1.0]), group, 1)
    assert 0.1 / (1 + math.exp(-15 * (0 + 0.5))) > 0.0999
    assert found[0] - 1 < 0.0001
    assert found[-1] - 1 > 0.0999


def test_the_window_of_steps_holds_its_first_and_not_its_end() -> None:
    group = members([1], [2])
    window = Position(first_step=200, steps=100)
    changed = [step for step in range(1, 400) if shaped(window, group, [1.0], step) != [1.0]]
    assert changed == list(range(200, 300))
    assert shaped(Position(first_step=5), group, [1.0], 4) == [1.0]
    assert shaped(Position(first_step=5), group, [1.0], 10**6) != [1.0]


def test_a_window_of_steps_needs_the_step_and_nothing_else_does() -> None:
    group = members([1, 0], [4, 4])
    given, excluded = (advantages([GroupMean(), Position()], group, *step) for step in ([1], []))
    assert [a.tolist() for a in excluded] == [a.tolist() for a in given]
    assert excluded[0][-1] > excluded[0][0]
    for window in (Position(first_step=2), Position(steps=9)):
        with pytest.raises(ValueError, match="depends on the training step: pass step"):
            advantages([GroupMean(), window], group)


@given(groups(), st.sampled_from([15.0, -15.0, 1000.0]), st.sampled_from([0.3, 0.5]))
def test_position_is_equations_8_and_12(drawn, slope, midpoint) -> None:
    group, base = drawn
    found = Position(slope=slope, midpoint=midpoint).shape(base, group, 1)
    for i, own in enumerate(base):
        for t, a in enumerate(own):
            r = slope * (t / len(own) - midpoint)
            bonus = 0.1 / (1 + math.exp(-r)) if r > -700 else 0.0
            expected = a + bonus if a > 0 else a - bonus if a < 0 else 0.0
            assert found[i][t] == pytest.approx(expected)


# Entropy


@given(groups(), st.floats(0, 5), st.floats(1.01, 10))
def test_entropy_is_the_papers_formula_and_keeps_every_sign(drawn, alpha, kappa) -> None:
    group, base = drawn
    found = EntropyAdvantage(weight=alpha, kappa=kappa).shape(base, group, 1)
    for i, own in enumerate(base):
        for t, a in enumerate(own):
            assert found[i][t] == pytest.approx(a + min(alpha * group.entropies_GT[i][t], abs(a) / kappa))
            assert np.sign(found[i][t]) == np.sign(a)


# Polarity, and rewards without a baseline


def test_reinforcement_of_samples_by_sign_as_the_papers_three_objectives() -> None:
    """A half-solved group and one of failures, rewards 1 and -1: NSR punishes every failure, PSR rewards successes."""
    mixed, failed = members([1, -1], [1, 1]), members([-1, -1], [1, 1])
    for polarity, of_mixed, of_failed in [
        (Polarity(), [1, -1], [-1, -1]),
        (Polarity(positive=0), [0, -1], [-1, -1]),
        (Polarity(negative=0), [1, 0], [0, 0]),
        (Polarity(positive=0.1), [0.1, -1], [-1, -1]),
    ]:
        chain = [NoBaseline(), polarity]
        assert [float(a[0]) for a in advantages(chain, mixed)] == of_mixed
        assert [float(a[0]) for a in advantages(chain, failed)] == of_failed


def test_positive_and_negative_reinforcement_sum_to_the_whole() -> None:
    group = members([1, 0, 0, math.nan], [3, 2, 1, 2])
    whole, positive, negative = (
        advantages([GroupMean(), Polarity(**weights)], group) for weights in ({}, {"negative": 0}, {"positive": 0})
    )
    for a, p, n in zip(whole, positive, negative, strict=True):
        assert (p + n).tolist() == a.tolist()


def test_a_success_below_the_mean_is_no_negative_sample() -> None:
    """Its reward was shaped down, the verdict stays: NSR leaves it alone, and the failures above it are punished."""
    group = Members(np.array([-1.0, 0.0, 0.5]), np.array([True, False, False]), np.array([1, 1, 1]))
    base = advantages([GroupMean(std=False)], group)
    negative = advantages([GroupMean(std=False), Polarity(positive=0)], group)
    assert base[0][0] < 0 < base[2][0]
    assert [float(a[0]) for a in negative] == [0.0, float(base[1][0]), float(base[2][0])]


# Difficulty


def test_without_a_slope_every_weight_is_the_mean_of_both() -> None:
    assert shaped(Difficulty(slope=0), members([1, 0], [1, 1]), [1, -1]) == pytest.approx([0.95, -0.95])


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 100))
def test_the_rarer_the_heavier_between_both_bounds(a, b, slope) -> None:
    rarer, commoner = (Difficulty(slope=slope).of(rate) for rate in sorted((a, b)))
    assert 0.4 - 1e-12 <= commoner <= rarer <= 1.5 + 1e-12
    assert Difficulty(slope=slope).of(a) == pytest.approx(0.4 + 1.1 / (1 + math.exp(slope * (a - 0.75))))


def test_what_is_rare_must_not_count_for_less() -> None:
    with pytest.raises(ValidationError, match=r"low is 2\.0, but should be at most high"):
        Difficulty(low=2.0)
    assert Difficulty(low=2.0, high=2.0).of(0.1) == 2.0  # the same weight for all is a weight


# Covariance


def test_covariance_by_hand() -> None:
    """Means -1 and 0, so the covariances are 7/8, 0; -1/2, -3/8, 1; -3/4.

    The highest is that of an unlikely token in a failure, the next that of the likeliest one in a success.
    """
    group = members([1, 0, 1], [2, 3, 1], [[-0.125, -1.0], [-0.5, -0.625, -2.0], [-1.75]])
    base = [1.0, -1.0, 1.0]
    one = Covariance(share=0.2).shape(flat(group, base), group, 1)
    assert [a.tolist() for a in one] == [[1, 1], [-1, -1, 0], [1]]
    two = Covariance(share=0.34, weight=0.5).shape(flat(group, base), group, 1)
    assert [a.tolist() for a in two] == [[0.5, 1], [-1, -1, -0.5], [1]]
    everything = Covariance(share=1.0).shape(flat(group, base), group, 1)
    assert [a.tolist() for a in everything] == [[0, 1], [-1, -1, 0], [1]]  # only where it is above 0


def test_a_share_of_a_hundred_is_a_percentage() -> None:
    """0.29 * 100 is a hair below 29 in floating point. Most covariances here are above 0, and no two are equal."""
    group = members([1] * 50 + [0] * 50, [1] * 100, [[-0.001 * i * i] for i in range(100)])
    found = shaped(Covariance(share=0.29), group, [1.0] * 50 + [-1.0] * 50)
    assert found.count(0.0) == 29


def test_without_a_difference_there_is_no_covariance() -> None:
    """0.1 has a mean that rounds, so a residue would decide who is chosen."""
    group = members([1, 1, 1], [1, 1, 1], [[-0.1], [-0.2], [-0.7]])
    assert shaped(Covariance(share=1.0), group, [0.1] * 3) == [0.1] * 3
    alike = members([1, 0, 0], [1, 1, 1], [[-0.1], [-0.1], [-0.1]])
    assert shaped(Covariance(share=1.0), alike, [2.0, -1.0, -1.0]) == [2.0, -1.0, -1.0]


@given(groups(), st.sampled_from([0.002, 0.1, 0.29, 0.5, 1.0]))
def test_covariance_is_equation_10_ranked(drawn, share) -> None:
    group, base = drawn
    found = Covariance(share=share, weight=0.25).shape(base, group, 1)
    places = [(i, t) for i in range(group.size) if group.valid_G[i] for t in range(int(group.tokens_G[i]))]
    cov = {}
    if places:
        mean_a = statistics.fmean(base[i][t] for i, t in places)
        mean_lp = statistics.fmean(group.logprobs_GT[i][t] for i, t in places)
        cov = {(i, t): (group.logprobs_GT[i][t] - mean_lp) * (base[i][t] - mean_a) for i, t in places}
        quota = max(1, math.floor(round(share * len(places), 9)))
        threshold = sorted(cov.values())[-quota]
    for i, own in enumerate(base):
        for t, a in enumerate(own):
            chosen = (i, t) in cov and cov[i, t] > 1e-12 and cov[i, t] >= threshold
            assert found[i][t] == pytest.approx(0.25 * a if chosen else a)


# What must be recorded, and what a group with separate conditionings is compared with


@pytest.mark.parametrize(
    ("component", "what"),
    [("perplexity", "log-probability"), ("covariance", "log-probability"), ("entropy_advantage", "entropy")],
)
def test_what_is_not_recorded_is_named(component, what) -> None:
    group = members([1, 0], [2, 0])
    with pytest.raises(
        UserError, match=f"credit component {component} needs the {what} of every token, .* records none"
    ):
        SHAPERS[component]().shape(flat(group, [1.0, 0.0]), group, 1)
    empty = members([1, 0], [0, 0])
    assert [len(a) for a in SHAPERS[component]().shape(flat(empty, [0.0, 0.0]), empty, 1)] == [0, 0]


def test_a_record_of_another_length_is_no_record() -> None:
    group = members([1, 0], [2, 1], [[-1.0, -1.0], [-1.0, -1.0]])
    with pytest.raises(ValueError, match="member 1 has 1 trainable tokens, but 2 recorded values"):
        Perplexity().shape(flat(group, [1.0, -1.0]), group, 1)


def test_a_plain_failure_is_not_compared_with_seeded_successes() -> None:
    """Two seeded ones succeed, one of two plain ones: in one pool the mean is 3/4, apart the plain ones' is 1/2."""
    group = members([1, 1, 1, 0], [1] * 4, seeded_G=np.array([True, True, False, False]))
    assert GroupMean(std=False).advantages(group).tolist() == [0.25, 0.25, 0.25, -0.75]
    assert GroupMean(std=False, per_conditioning=True).advantages(group).tolist() == [0.0, 0.0, 0.5, -0.5]


@pytest.mark.parametrize(
    ("name", "differs"),
    [
        ("ppl", {"credit.main.1", "objective.surrogate.clip.high"}),
        ("position", {"credit.main.1", "objective.surrogate.clip.high"}),
        ("entropy-shaping", {"credit.main.1", "objective.surrogate.clip.high"}),
        ("nsr", {"credit.main.0", "credit.main.1", "reward.incorrect", "reward.unparseable"}),
    ],
)
def test_on_countdown_a_recipe_differs_from_grpo_in_its_idea_and_its_clips(name, differs) -> None:
    lines = load_recipe("grpo").difference(load_recipe(name))
    assert lines
    assert {key for key in differs if any(line.startswith(key) for line in lines)} == differs
    assert all(line.startswith(tuple(differs)) for line in lines), lines
