"""Token replacement: a policy whose true effects are known, and the noise that an estimate must not take for one."""

import itertools

import numpy as np
import pytest

from outrider.measure.intervention import (
    by_entropy,
    by_perplexity,
    by_position,
    effects,
    quantile_labels,
    squared_effects,
)


def binomial(k, p):
    """Every count with its probability."""
    for outcome in itertools.product([0, 1], repeat=k):
        yield sum(outcome), np.prod([p if x else 1 - p for x in outcome])


@pytest.mark.parametrize(("kept", "replaced"), [(0.9, 0.2), (0.5, 0.5), (0.1, 0.4), (1.0, 0.0)])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_both_estimators_are_unbiased(kept, replaced, k):
    """Their expectation over all outcomes of k and k continuations is the effect, and its square."""
    total = square = 0.0
    for (a, pa), (b, pb) in itertools.product(binomial(k, kept), binomial(k, replaced)):
        total += pa * pb * effects([b], [a], k)[0]
        square += pa * pb * squared_effects([b], [a], k)[0]
    assert total == pytest.approx(kept - replaced)
    assert np.isnan(square) if k == 1 else square == pytest.approx((kept - replaced) ** 2)


def test_what_cannot_be_verified_is_not_a_zero():
    assert np.isnan(effects([np.nan, 1], [1, np.nan], 2)).all()
    found = by_position([np.nan, 0.5, 0.1], [0.0, 0.1, np.nan], [0, 1, 2])
    assert (found["below 0.2"].value, found["below 0.2"].n, found.excluded) == (0.5, 1, 2)
    assert effects([1, 2], [2, 4], [2, 4]).tolist() == [0.5, 0.5]


@pytest.mark.parametrize(("replaced", "kept", "k"), [([3], [0], 2), ([0], [-1], 2), ([0], [0], 0)])
def test_impossible_counts_are_refused(replaced, kept, k):
    with pytest.raises(ValueError, match="k"):
        effects(replaced, kept, k)


def play(seed, responses=60, positions=10, k=8):
    """A hand-made policy: early tokens change success by 0.4 in half of the responses and nothing in the other half."""
    generator = np.random.default_rng(seed)
    relative = np.tile((np.arange(positions) + 0.5) / positions, responses)
    owner = np.repeat(np.arange(responses), positions)
    fragile = generator.random(responses) < 0.5
    value = np.where(relative < 0.2, 0.4 * fragile[owner], 0.0)
    kept, replaced = generator.binomial(k, 0.6, len(owner)), generator.binomial(k, 0.6 - value)
    return effects(replaced, kept, k), relative, owner


def test_known_effects_are_found_and_covered():
    hits = np.zeros(3)
    for seed in range(60):
        found = by_position(*play(seed)).over_responses(200, seed)
        for i, (mean, truth) in enumerate(zip(found.means, [0.2, 0.0, 0.0], strict=True)):
            hits[i] += mean.low <= truth <= mean.high
    assert (hits >= 50).all()  # 57 expected, less 4 standard deviations
    found = by_position(*play(0, responses=400)).over_responses()
    assert [m.value for m in found.means] == pytest.approx([0.2, 0.0, 0.0], abs=0.04)
    assert found["below 0.2"].excludes_zero
    assert found.difference("from 0.8", "below 0.2").low > 0.1
    assert [m.n for m in found.means] == [800, 2400, 800]


def test_perplexity_groups_are_of_responses_and_entropy_groups_of_positions():
    """One response has six of ten positions: it is still one of five responses."""
    responses = np.array([0] * 6 + [1, 2, 3, 4])
    perplexity = np.array([1.0, 2.0, 3.0, 4.0, 5.0])[responses]
    by_ppl = by_perplexity(np.zeros(10), perplexity, responses)
    assert by_ppl.groups == ("lowest 20 %", "20 to 80 %", "highest 20 %")
    assert [m.n for m in by_ppl.means] == [6, 3, 1]
    assert [m.responses for m in by_ppl.means] == [1, 3, 1]
    by_h = by_entropy(np.zeros(10), np.arange(10.0), responses)
    assert [m.n for m in by_h.means] == [2, 6, 2]
    with pytest.raises(ValueError, match="must be the same at all positions"):
        by_perplexity([0.0, 0.0], [1.0, 2.0], [0, 0])
    assert quantile_labels((0.5,)) == ["lowest 50 %", "highest 50 %"]


def test_position_edges_belong_to_the_later_group():
    found = by_position(np.arange(4.0), [0.0, 0.2, 0.8, 0.99], [0, 1, 2, 3])
    assert [m.value for m in found.means] == [0.0, 1.0, 2.5]
