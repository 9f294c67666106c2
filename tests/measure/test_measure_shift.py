"""Probability change between checkpoints: who moved, and what an interval must not promise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.measure.shift import (
    largest_by_group,
    moved,
    perplexities,
    perplexity_against_change,
    rank_correlation,
)

FEW = settings(max_examples=25)
PROBS = st.lists(st.tuples(st.floats(1e-6, 1), st.floats(1e-6, 1)), max_size=12)


@FEW
@given(PROBS)
def test_sums_add_up(pairs):
    before, after = np.array(pairs).reshape(-1, 2).T
    found = after - before
    lengths = [1] * len(pairs)
    success = [[1.0, 0.0, np.nan][i % 3] for i in range(len(pairs))]
    sums = moved(found, lengths, success)
    for name, want in (("correct", 1.0), ("incorrect", 0.0)):
        mine = [c for c, s in zip(found, success, strict=True) if s == want]
        assert sums[name].risen == pytest.approx(sum(c for c in mine if c > 0))
        assert sums[name].fallen == pytest.approx(sum(c for c in mine if c < 0))
        assert sums[name].tokens == len(mine)
        assert sums[name].beyond == pytest.approx(
            np.mean([abs(c) > 0.06 for c in mine]) if mine else np.nan, nan_ok=True
        )
    assert sums["all"].tokens == len(pairs)


def test_an_unknown_change_is_excluded_and_counted():
    assert moved([np.nan, 0.5], [2], [1.0])["correct"].excluded == 1


def test_learning_that_is_concentrated_is_seen_where_it_is():
    """Tokens of the first group changed by 0.5, those of the second by 0.001: the top fifth is all of the first."""
    sizes = np.where(np.arange(50) % 5 == 0, -0.5, 0.001)
    groups = (np.arange(50) % 5 > 0).astype(int)
    found = largest_by_group(sizes, [25, 25], groups, ["forks", "rest"], share=0.2)
    assert (found["forks"].value, found["rest"].value) == (1.0, 0.0)
    even = largest_by_group(np.random.default_rng(0).random(4000), [4000], np.arange(4000) % 2, ["a", "b"])
    assert [m.value for m in even.means] == pytest.approx([0.2, 0.2], abs=0.03)


def test_unknown_changes_are_in_no_group():
    found = largest_by_group([np.nan, 0.3, 0.1], [3], [0, 0, 1], ["a", "b"], share=0.5)
    assert (found["a"].value, found["a"].n, found.excluded) == (1.0, 1, 1)


@FEW
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=15))
def test_rank_correlation_is_the_correlation_of_mean_ranks(pairs):
    x, y = np.array(pairs, dtype=float).T

    def ranks(v):
        return [np.mean([i + 1 for i, w in enumerate(sorted(v)) if w == u]) for u in v]

    found = rank_correlation(x, y, resamples=0).value
    a, b = ranks(x), ranks(y)
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert np.isnan(found)
    else:
        assert found == pytest.approx(np.corrcoef(a, b)[0, 1], abs=1e-12)


def test_the_interval_of_a_correlation_covers_it_and_independence_is_not_excluded():
    generator, hits = np.random.default_rng(0), 0
    for seed in range(40):
        x, y = generator.normal(size=(2, 40))
        found = rank_correlation(x, y, resamples=60, seed=seed)
        hits += found.low <= 0 <= found.high
    assert hits >= 31  # 38 expected, 60 draws make it a little less; minus 4 standard deviations
    x = np.append(generator.normal(size=60), np.nan)
    found = rank_correlation(x, x**3, resamples=50)
    assert (found.value, found.responses, found.excluded) == (pytest.approx(1.0), 60, 1)
    assert found.low == pytest.approx(1.0)
    for short in ([], [1.0, 2.0]):
        assert np.isnan(rank_correlation(short, short).value)
    with pytest.raises(ValueError, match="equally many values"):
        rank_correlation([1.0], [1.0, 2.0])


def test_a_correlation_of_repeated_problems_is_as_sure_as_their_number():
    x, y = np.random.default_rng(3).normal(size=(2, 30))
    once = rank_correlation(x, y, resamples=300)
    again = rank_correlation(np.tile(x, 5), np.tile(y, 5), resamples=300, problems_R=np.tile(np.arange(30), 5))
    assert (again.low, again.high) == (pytest.approx(once.low, abs=0.06), pytest.approx(once.high, abs=0.06))
    alone = rank_correlation(np.tile(x, 5), np.tile(y, 5), resamples=300)
    assert alone.high - alone.low < 0.6 * (again.high - again.low)
    assert np.isnan(rank_correlation(x, y, problems_R=np.zeros(30)).low)


def test_perplexity_against_change():
    logprobs = np.log([0.9, 0.9, 0.5, 0.5, 0.1])
    assert perplexities(logprobs, [2, 2, 0, 1]).tolist() == pytest.approx([1 / 0.9, 2, np.nan, 10], nan_ok=True)
    found = perplexity_against_change(perplexities(logprobs, [2, 2, 0, 1]), [0.3, -0.3, 0.2, 0.2, -0.1], [2, 2, 0, 1])
    assert found.value == -1.0
    assert (found.responses, found.excluded) == (3, 1)
