"""The drop of entropy between two steps: its parts add up, by hand and for any responses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from study_code import study_code

_code = study_code("_entropy_drop")
Side, entropy_drop = _code.Side, _code.entropy_drop


@st.composite
def ragged(draw):
    """Responses as lists of values, which loops can be written for."""
    value = st.one_of(st.just(float("nan")), st.floats(0, 5))
    return draw(st.lists(st.lists(value, max_size=7), min_size=4, max_size=8))


def flat(responses):
    return [x for r in responses for x in r], [len(r) for r in responses]


@settings(max_examples=25)
@given(ragged(), ragged(), st.integers(0, 99))
def test_the_three_parts_add_up_to_the_drop(first, second, seed):
    generator, sides = np.random.default_rng(seed), []
    for responses in (first, second):
        values, lengths = flat(responses)
        success = generator.choice([0.0, 1.0, np.nan], len(responses), p=[0.45, 0.45, 0.1])
        sides.append(Side(np.array(values, dtype=float), lengths, success))
    drop = entropy_drop(*sides, resamples=0)
    known = [
        [(v, s) for r, s in zip(responses, success, strict=True) for v in r if not np.isnan([v, s]).any()]
        for responses, success in zip((first, second), (side.success_R for side in sides), strict=True)
    ]
    for name, kinds in (("incorrect", [0.0]), ("correct", [1.0]), ("overall", [0.0, 1.0])):
        before, after = ([v for v, s in side if s in kinds] for side in known)
        wanted = np.mean(before) - np.mean(after) if before and after else np.nan
        assert getattr(drop, name).value == pytest.approx(wanted, nan_ok=True, abs=1e-9)
    parts = drop.from_incorrect.value + drop.from_correct.value + drop.from_mix.value
    assert np.isnan(parts) or parts == pytest.approx(drop.overall.value, abs=1e-9)
    assert drop.excluded == sum(len(side.values_T) for side in sides) - sum(map(len, known))


def test_each_part_by_hand():
    """Incorrect 2 to 1, correct 1 to 0.5; half of the tokens are correct before, three quarters after.

    Mean shares 0.375 and 0.625 give 0.375 and 0.3125; the mix is 0.25 times the mean gap of (1 + 0.5) / 2.
    """
    before = Side(np.array([2.0, 1.0]), [1, 1], [0, 1])
    drop = entropy_drop(before, Side(np.array([1.0, 0.5, 0.5, 0.5]), [1] * 4, [0, 1, 1, 1]), resamples=0)
    assert (drop.from_incorrect.value, drop.from_correct.value) == (0.375, 0.3125)
    assert (drop.from_mix.value, drop.overall.value) == (0.1875, 0.875)


def test_more_correct_responses_alone_are_a_drop_from_mix():
    """Incorrect responses have entropy 1, correct ones 0, at both steps; the correct ones go from 1/4 to 2/4."""
    before = Side(np.array([1.0, 1.0, 1.0, 0.0]), [1] * 4, [0, 0, 0, 1])
    drop = entropy_drop(before, Side(np.array([1.0, 1.0, 0.0, 0.0]), [1] * 4, [0, 0, 1, 1]))
    assert (drop.from_incorrect.value, drop.from_correct.value, drop.from_mix.value) == (0.0, 0.0, 0.25)
    assert (drop.incorrect.low, drop.incorrect.high) == (0.0, 0.0)
    assert np.isnan(drop.correct.low)  # one correct response before


def test_intervals_of_the_drop_cover_it():
    generator, hits = np.random.default_rng(3), 0
    success = np.tile([0.0, 1.0], 20)
    for seed in range(80):
        sides = [
            Side(np.repeat(generator.normal(np.where(success, 0.2, mean), 0.3), 5), np.full(40, 5), success)
            for mean in (1.0, 0.6)
        ]
        drop = entropy_drop(*sides, resamples=100, seed=seed)
        hits += drop.incorrect.low <= 0.4 <= drop.incorrect.high
    assert hits >= 67  # 76 expected, less 4 standard deviations
