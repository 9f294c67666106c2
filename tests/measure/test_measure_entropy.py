"""Token entropies by position, size and outcome, against plain loops; intervals against what they promise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.measure import groups as grouping
from outrider.measure.entropy import by_relative_position, spread
from outrider.measure.groups import means_by_group
from outrider.measure.ragged import (
    highest,
    lengths_of,
    outcome_groups,
    owners,
    quantile_groups,
    relative_bins,
)

FEW = settings(max_examples=25)
LENGTHS = st.lists(st.integers(0, 9), max_size=8)


@st.composite
def ragged(draw, least=0):
    """Responses as lists of values, which loops can be written for."""
    value = st.one_of(st.just(float("nan")), st.floats(0, 5))
    return draw(st.lists(st.lists(value, max_size=7), min_size=least, max_size=8))


def flat(responses):
    return [x for r in responses for x in r], [len(r) for r in responses]


# layout


@FEW
@given(LENGTHS)
def test_layout_is_what_loops_give(lengths):
    assert owners(lengths).tolist() == [r for r, n in enumerate(lengths) for _ in range(n)]


@FEW
@given(LENGTHS, st.integers(1, 12), st.integers(0, 5))
def test_relative_bins_hold_equal_parts_of_each_path(lengths, bins, start):
    wanted = [int(t * bins / (n + start) + 1e-9) for n in lengths for t in range(start, start + n)]
    assert relative_bins(lengths, bins, start).tolist() == wanted


def test_lengths_that_do_not_fit_are_refused():
    for lengths in ([2, 2], [-1, 4], [[3]]):
        with pytest.raises(ValueError, match="add up to 3"):
            lengths_of(lengths, 3)
    with pytest.raises(ValueError, match="at least one bin"):
        relative_bins([3], 0)


@FEW
@given(
    st.lists(st.one_of(st.integers(0, 6), st.just(float("nan"))), max_size=30), st.sampled_from([(0.5,), (0.2, 0.8)])
)
def test_quantile_groups_are_as_small_as_their_share_allows(values, edges):
    groups = quantile_groups(values, edges)
    known = np.array([v for v in values if not np.isnan(v)])
    assert [g == -1 for g in groups] == [bool(np.isnan(v)) for v in values]
    for i, edge in enumerate(edges):
        below = np.array([v for v, g in zip(values, groups, strict=True) if 0 <= g <= i])
        above = np.array([v for v, g in zip(values, groups, strict=True) if g > i])
        if len(known):
            assert len(below) >= edge * len(known) - 1e-9
            assert not len(above) or below.max() < above.min()
            without_its_ties = below[below < below.max()]
            assert len(without_its_ties) < edge * len(known) - 1e-9  # one value fewer would be too few


def test_shares_that_binary_cannot_hold_give_whole_numbers():
    """0.07 * 100 is 7.000000000000001 in binary."""
    assert np.bincount(quantile_groups(np.arange(10.0))).tolist() == [2, 6, 2]
    assert np.bincount(quantile_groups(np.arange(100.0), (0.07,))).tolist() == [7, 93]
    assert highest(np.arange(100.0), 0.29).sum() == 29
    for edges in ((0.8, 0.2), (0.0,), (1.0,)):
        with pytest.raises(ValueError, match="quantile edges must increase"):
            quantile_groups([1.0], edges)
    with pytest.raises(ValueError, match="share"):
        highest([1.0], 0.0)
    assert highest([float("nan")]).tolist() == [False]


# means by group


@FEW
@given(ragged(), st.integers(1, 4))
def test_means_are_those_of_loops_and_every_token_is_counted(responses, bins):
    values, lengths = flat(responses)
    found = by_relative_position(values, lengths, bins=bins)
    parts = [[] for _ in range(bins)]
    sources = [set() for _ in range(bins)]
    for r, response in enumerate(responses):
        for t, value in enumerate(response):
            if not np.isnan(value):
                parts[t * bins // len(response)].append(value)
                sources[t * bins // len(response)].add(r)
    for part, source, mean in zip(parts, sources, found.means, strict=True):
        assert mean.value == pytest.approx(np.mean(part) if part else np.nan, nan_ok=True)
        assert (mean.n, mean.responses) == (len(part), len(source))
        assert np.isnan(mean.low)
        assert np.isnan(mean.high)
    assert found.excluded + sum(m.n for m in found.means) == len(values)


def test_responses_to_one_problem_are_drawn_together():
    """40 problems with one response each, and with six that are alike: the same intervals, and the truth in them."""
    hits = 0
    for seed in range(100):
        x = np.random.default_rng(seed)
        problem_P = x.normal(size=40)
        once = means_by_group(problem_P, np.zeros(40, int), np.arange(40), ["all"]).over_responses(200)["all"]
        six = means_by_group(np.repeat(problem_P, 6), np.zeros(240, int), np.arange(240), ["all"]).over_responses(200)
        again = six.over_problems(np.repeat(np.arange(40), 6), resamples=200)["all"]
        assert (again.low, again.high) == pytest.approx((once.low, once.high))
        assert six["all"].high - six["all"].low < 0.6 * (again.high - again.low)
        assert (again.n, again.responses) == (240, 240)
        hits += again.low <= 0 <= again.high
    assert hits >= 86  # 95 expected, percentiles a little less; minus 4 standard deviations


def test_a_difference_within_one_problem_has_no_interval():
    found = means_by_group([1.0, 2.0, 3.0, 5.0], [0, 0, 1, 1], [0, 1, 0, 1], ["a", "b"]).over_problems([7, 7])
    assert np.isnan(found.difference("a", "b").low)
    assert found.difference("a", "b").value == 2.5


def test_intervals_cover_the_mean_when_tokens_of_a_response_are_alike():
    """Tokens within a response are nearly copies: 40 responses of 50 tokens hold 40 facts, not 2,000."""
    generator, hits, widths = np.random.default_rng(0), 0, []
    lengths = np.full(40, 50)
    for seed in range(100):
        values = np.repeat(generator.normal(1.0, 1.0, 40), 50) + generator.normal(0, 0.1, 2000)
        found = means_by_group(values, np.zeros(2000, int), owners(lengths), ["all"]).over_responses(100, seed)["all"]
        hits += found.low <= 1.0 <= found.high
        widths.append(found.high - found.low)
    assert hits >= 86  # 95, less 3 standard deviations and the known narrowness of percentiles
    assert np.mean(widths) == pytest.approx(2 * 1.96 / np.sqrt(40), rel=0.1)


@pytest.mark.parametrize("chunk", [4_000_000, 1])
def test_a_difference_of_groups_within_responses_is_paired(chunk, monkeypatch):
    """Responses differ widely, but in each one the end is exactly 0.5 above the beginning."""
    monkeypatch.setattr(grouping, "_CHUNK", chunk)
    level = np.random.default_rng(1).normal(0, 10, 30)
    values = np.stack([level, level + 0.5], 1).ravel()
    found = means_by_group(values, np.tile([0, 1], 30), np.repeat(np.arange(30), 2), ["start", "end"])
    found = found.over_responses(100)
    change = found.difference("start", "end")
    assert (change.value, change.low, change.high) == pytest.approx((0.5, 0.5, 0.5))
    assert (change.n, change.responses) == (30, 30)
    assert change.excludes_zero
    assert found["end"].high - found["end"].low > 1


def test_a_group_from_one_response_has_no_interval():
    found = means_by_group([1.0, 2.0, 3.0], [0, 0, 1], [0, 1, 1], ["a", "b"]).over_responses()
    assert np.isfinite(found["a"].low)
    assert np.isnan(found["b"].low)
    assert not found["b"].excludes_zero
    assert np.isnan(found.difference("a", "b").low)
    assert found.difference("a", "b").value == 1.5


def test_arrays_that_do_not_belong_together_are_refused():
    with pytest.raises(ValueError, match="must have equal lengths"):
        means_by_group([1.0], [0, 0], [0], ["a"])
    with pytest.raises(ValueError, match="no label"):
        means_by_group([1.0], [1], [0], ["a"])


# entropies


def test_the_mean_surprisal_is_the_entropy():
    """A coin of 0.9: the surprisal of 40,000 draws has the entropy as mean, 0.3251, within 4 standard errors."""
    p = np.array([0.9, 0.1])
    drawn = np.random.default_rng(0).choice(2, size=40_000, p=p)
    found = by_relative_position(-np.log(p[drawn]), [40_000], bins=1)
    assert found.means[0].value == pytest.approx(0.3251, abs=0.0132)


def test_a_u_shape_is_found():
    """Entropy 1 in the first and last tenth and 0 between, in responses of many lengths."""
    lengths = [20, 30, 50, 100]
    values = [float(t < n / 10 or t >= n * 9 / 10) for n in lengths for t in range(n)]
    found = by_relative_position(values, lengths, bins=10).over_responses()
    assert [m.value for m in found.means] == [1.0] + [0.0] * 8 + [1.0]
    assert [m.responses for m in found.means] == [4] * 10
    assert found.difference(0.45, 0.95).low == 1.0


def test_positions_count_from_the_beginning_of_the_whole_response():
    assert [m.n for m in by_relative_position([5.0, 6.0], [2], starts_R=[2], bins=2).means] == [0, 2]
    with pytest.raises(ValueError, match="add up"):
        by_relative_position([5.0, 6.0], [1])


def test_unscorable_responses_and_tokens_of_no_category_are_excluded_and_counted():
    values, owners_T = [1.0, 2.0, 3.0, 4.0], owners([1, 2, 1])
    outcome_T = np.repeat(outcome_groups([True, np.nan, False]), [1, 2, 1])
    outcomes = means_by_group(values, outcome_T, owners_T, ["incorrect", "correct"])
    assert (outcomes["correct"].value, outcomes["incorrect"].value, outcomes.excluded) == (1.0, 4.0, 2)
    assert outcome_groups(np.array([True, False])).tolist() == [1, 0]
    categories = means_by_group(values, [0, -1, 0, -1], owners_T, ["formal"])
    assert (categories["formal"].value, categories.excluded) == (2.0, 2)


def test_spread_of_nothing_and_of_certainty():
    empty = spread([np.nan], levels=[0.5])
    assert np.isnan([empty.quantiles[0.5], empty.threshold, empty.carried]).all()
    certain = spread(np.zeros(5))
    assert certain.threshold == 0.0
    assert np.isnan(certain.carried)


@FEW
@given(st.lists(st.floats(0, 9), min_size=1, max_size=40), st.floats(0.01, 1))
def test_what_the_highest_tokens_carry(values, share):
    found = spread([*values, np.nan], share=share)
    chosen = max(1, int(share * len(values) + 1e-9))
    wanted = sorted(values, reverse=True)[:chosen]
    assert found.threshold == wanted[-1]
    if sum(values) > 1e-6:
        assert found.carried == pytest.approx(sum(wanted) / sum(values))
