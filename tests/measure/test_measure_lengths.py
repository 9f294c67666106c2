"""Lengths: tables against plain loops, XRPO's z-scores by hand, drift against the normal equations."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.measure.lengths import drift, lengths_by_outcome, shaped_lengths

NAN = math.nan


def test_every_outcome_has_its_row_and_unknown_numbers_are_counted():
    rows = lengths_by_outcome(
        [10, 30, 50, NAN, 70, 5],
        ["correct", "incorrect", "incorrect", "incorrect", None, "correct"],
        [0, 0, 1, 1, NAN, NAN],
    )
    assert [row.outcome for row in rows] == ["all", "incorrect", "correct", "unverified"]  # most frequent first
    whole, wrong, right, unverified = rows
    assert (whole.responses, whole.mean) == (6, 33.0)
    assert (wrong.responses, wrong.mean, wrong.std) == (3, 40.0, 10.0)
    assert wrong.truncated == pytest.approx(2 / 3)
    assert (right.p10, right.median, right.p90, right.longest) == (5.5, 7.5, 9.5, 10.0)
    assert right.truncated == 0.0
    assert unverified.mean == 70
    assert math.isnan(unverified.truncated)


def test_no_responses_and_no_lengths_are_no_numbers():
    (only,) = lengths_by_outcome([], [])
    assert only.responses == 0
    assert math.isnan(only.mean)
    assert math.isnan(only.longest)
    assert all(math.isnan(row.median) for row in lengths_by_outcome([NAN], ["error"]))
    with pytest.raises(ValueError, match="differ in number"):
        lengths_by_outcome([1.0], [])


ROLLOUT = st.tuples(
    st.sampled_from([5.0, 10.0, 20.0, NAN]), st.integers(0, 2), st.sampled_from([0.0, 1.0, NAN]), st.booleans()
)


@given(st.lists(ROLLOUT, max_size=14))
@settings(max_examples=40, deadline=None)
def test_shaped_responses_are_scored_within_their_group(rollouts):
    tokens, group, success, shaped = (list(column) for column in zip(*rollouts, strict=True)) if rollouts else ([],) * 4
    found = shaped_lengths(tokens, group, success, shaped)
    for name, belongs in {
        "correct": lambda s, boosted: s == 1,
        "group": lambda s, boosted: True,
        "unshaped": lambda s, boosted: s == 1 and not boosted,
    }.items():
        scores, ratios = [], []
        for length, g, _, boosted in rollouts:
            reference = [x for x, h, s, b in rollouts if h == g and belongs(s, b) and not math.isnan(x)]
            if not boosted or math.isnan(length) or not reference:
                continue
            ratios.append(length / np.mean(reference))
            if len(set(reference)) > 1:
                scores.append((length - np.mean(reference)) / np.std(reference))
        row = found[name]
        assert (row.z_responses, row.ratio_responses) == (len(scores), len(ratios))
        assert row.z == pytest.approx(np.mean(scores) if scores else NAN, nan_ok=True)
        assert row.ratio == pytest.approx(np.mean(ratios) if ratios else NAN, nan_ok=True)
        error = np.std(scores, ddof=1) / len(scores) ** 0.5 if len(scores) > 1 else NAN
        assert row.z_error == pytest.approx(error, nan_ok=True)


def test_a_shaper_that_likes_long_responses_is_seen_and_one_that_does_not_care_is_not():
    random = np.random.default_rng(0)
    tokens, group = random.integers(100, 300, 4000), np.repeat(np.arange(500), 8)
    success = random.random(4000) < 0.5
    blind = success & (random.random(4000) < 0.3)
    longest = success & (tokens > 250)
    fair, unfair = (shaped_lengths(tokens, group, success, shaped)["unshaped"] for shaped in (blind, longest))
    assert abs(shaped_lengths(tokens, group, success, blind)["group"].z) < 0.1
    assert 0.9 < fair.ratio < 1.1
    assert unfair.z > 1
    assert unfair.ratio > 1.3


def test_shaped_flags_of_other_responses_are_refused():
    with pytest.raises(ValueError, match="shaped flags must have equal lengths"):
        shaped_lengths([1.0], [0], [1], [True, False])


@given(st.lists(st.tuples(st.integers(0, 50), st.floats(-100, 100)), min_size=3, max_size=20))
@settings(max_examples=30, deadline=None)
def test_a_drift_is_the_least_squares_line_over_the_logarithm_of_steps(points):
    steps, values = (np.array(column, np.float64) for column in zip(*points, strict=True))
    found, x, y = drift(steps, values), np.log2(steps[steps > 0]), values[steps > 0]
    if len(x) < 3 or len(set(x)) < 2:
        assert math.isnan(found.per_doubling)
        assert math.isnan(found.error)
        return
    columns = np.stack([np.ones(len(x)), x], axis=1)
    beta, _, _, _ = np.linalg.lstsq(columns, y)
    assert found.per_doubling == pytest.approx(beta[1], abs=1e-8)
    variance = ((y - columns @ beta) ** 2).sum() / (len(x) - 2)
    assert found.error == pytest.approx(np.sqrt(variance * np.linalg.inv(columns.T @ columns)[1, 1]), abs=1e-6)


def test_growth_by_a_fixed_amount_per_doubling():
    found = drift([0, 1, 2, 4, 8, 16, 32], [NAN, 5, 8, 11, 14, 17, NAN])
    assert found == pytest.approx((3, 0), abs=1e-9)


def test_too_few_points_have_no_slope():
    for steps, values in (([], []), ([3, 3, 3], [1, 2, 3]), ([0, 2, 4], [1, 5, 6])):
        assert all(map(math.isnan, drift(steps, values)))
    with pytest.raises(ValueError, match="steps must be >= 0"):
        drift([-1], [0])
