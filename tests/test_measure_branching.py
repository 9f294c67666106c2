"""Branching factor against the naive definition in float64."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.measure import branching
from outrider.measure.branching import branching_factor, candidates

FEW = settings(max_examples=25)
LOGITS = st.lists(st.floats(-8, 8), min_size=1, max_size=12)


def softmax(logits, temperature=1.0):
    weights = np.exp((np.asarray(logits, dtype=np.float64) - np.max(logits)) / temperature)
    return weights / weights.sum()


def nucleus(probs, mass):
    """The definition: take tokens, the likeliest first, until they hold the mass."""
    held, size = 0.0, 0
    for p in sorted(probs, reverse=True):
        if held >= mass - 1e-6:
            break
        held, size = held + p, size + 1
    return size


@FEW
@given(LOGITS, st.floats(0.05, 0.99), st.sampled_from([0.3, 1.0, 2.0]))
def test_the_nucleus_is_the_smallest_set_that_holds_the_mass(logits, mass, temperature):
    probs = softmax(logits, temperature)
    [found] = candidates([logits], mass, temperature)
    assert found == nucleus(probs, mass)
    shifted = np.array(logits) + 3.0  # not normalised
    assert candidates([shifted], mass, temperature).tolist() == [found]


@pytest.mark.parametrize(
    ("probs", "mass", "size"),
    [
        ([0.25] * 4, 0.75, 3),  # the boundary token closes the set exactly
        ([0.25] * 4, 0.76, 4),
        ([0.1] * 10, 0.9, 9),
        ([0.5, 0.3, 0.2], 0.8, 2),  # through logarithms, 0.5 and 0.3 come to a hair less than 0.8
        ([0.7, 0.2, 0.1], 0.9, 2),
        ([0.96, 0.04], 0.95, 1),
        ([0.94, 0.06], 0.95, 2),
        ([1.0, 0.0], 1.0, 1),
        ([0.999999999, 1e-9], 1.0, 2),
    ],
)
def test_ties_and_boundaries(probs, mass, size):
    with np.errstate(divide="ignore"):
        logprobs = np.log(probs)
    assert candidates(logprobs, mass).tolist() == [size]
    assert candidates(logprobs.astype(np.float32), mass).tolist() == [size]


def test_a_wide_distribution_is_counted_past_the_head_and_in_chunks(monkeypatch):
    """1,000 equal tokens hold 0.95 in 950; a row beside it is narrow."""
    narrow = np.full(1000, -50.0)
    narrow[7] = 0.0
    rows = np.stack([np.zeros(1000), narrow, np.linspace(0, 1, 1000)])
    wanted = [nucleus(softmax(row), 0.95) for row in rows]
    assert wanted[:2] == [950, 1]
    assert candidates(rows).tolist() == wanted
    monkeypatch.setattr(branching, "_CHUNK", 1000)
    assert candidates(rows).tolist() == wanted


def test_temperature_flattens():
    """At temperature 2 the weights 16 : 1 become 4 : 1, so the likely token alone no longer holds 0.9."""
    logprobs = np.log([16 / 17, 1 / 17])
    assert candidates(logprobs, 0.9).tolist() == [1]
    assert candidates(logprobs, 0.9, temperature=2.0).tolist() == [2]


def test_impossible_requests_are_refused():
    for arguments in ({"mass": 0.0}, {"mass": 1.1}, {"temperature": 0.0}):
        with pytest.raises(ValueError, match="must be"):
            candidates([[0.0]], **arguments)
    for row in ([0.0, np.nan], [-np.inf, -np.inf]):
        with pytest.raises(ValueError, match="NaN or no finite"):
            candidates([row])
    assert candidates(np.empty((0, 5))).tolist() == []


def test_the_factor_is_a_mean_over_tokens_with_an_interval_over_responses():
    found = branching_factor([1, 1, 1, 5], [3, 1])
    assert (found.value, found.n, found.responses) == (2.0, 4, 2)
    assert (found.low, found.high) == (1.0, 5.0)  # both draws are the first response, or both the second
    assert np.isnan(branching_factor([], []).value)
