"""Branching factor and gradient norms against the naive definitions in float64."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.measure import branching
from outrider.measure.branching import branching_factor, candidates
from outrider.measure.gradient import (
    advantage_factors,
    error_norms,
    gradient_norms,
    gradient_norms_of,
    printed_factors,
)

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


# gradient norms


@FEW
@given(st.lists(LOGITS.filter(lambda row: len(row) > 2), min_size=1, max_size=3), st.integers(0, 9), st.floats(-3, 3))
def test_the_norm_is_that_of_the_outer_product(rows, seed, factor):
    generator = np.random.default_rng(seed)
    for row in rows:
        probs, hidden = softmax(row), generator.normal(size=5)
        target = int(generator.integers(len(row)))
        error = np.eye(len(row))[target] - probs
        wanted = np.linalg.norm(factor * np.outer(error, hidden))  # Frobenius, entry by entry
        [found] = gradient_norms_of(np.log(probs)[None], [target], hidden[None], factor)
        assert found == pytest.approx(wanted, rel=1e-9, abs=1e-12)


def test_the_norm_is_the_derivative_of_the_log_probability_with_respect_to_the_head():
    generator, step = np.random.default_rng(0), 1e-6
    head, hidden = generator.normal(size=(4, 3)), generator.normal(size=3)

    def logps(weights):
        return np.log(softmax(weights @ hidden))

    slopes = np.zeros_like(head)
    for at in np.ndindex(head.shape):
        nudge = np.zeros_like(head)
        nudge[at] = step
        slopes[at] = (logps(head + nudge)[2] - logps(head - nudge)[2]) / (2 * step)
    [found] = gradient_norms_of(logps(head)[None], [2], hidden[None])
    assert found == pytest.approx(np.linalg.norm(slopes), rel=1e-6)


def test_an_all_but_certain_token_keeps_its_digits():
    """p = 1 - 1e-9, the rest on one other token: the norm is sqrt(2) * 1e-9, below what 1 - 2p + sum p^2 can hold."""
    rest = 1e-9
    [found] = error_norms([np.log1p(-rest)], [rest**2])
    assert found == pytest.approx(np.sqrt(2) * rest, rel=1e-6)
    assert gradient_norms(found, [3.0], [-2.0]).tolist() == pytest.approx([6 * found])
    assert error_norms([0.0], [0.0]).tolist() == [0.0]
    assert error_norms([-50.0], [1.0]).tolist() == pytest.approx([np.sqrt(2)])  # the largest there is


@FEW
@given(st.floats(-3, 3), st.floats(0.3, 2.5))
def test_factors_are_the_derivative_of_the_clipped_objective(advantage, ratio):
    def objective(log_ratio):
        r = np.exp(log_ratio)
        return min(r * advantage, np.clip(r, 0.8, 1.28) * advantage)

    if min(abs(ratio - 0.8), abs(ratio - 1.28)) > 1e-3:  # no derivative at the corner
        x = np.log(ratio)
        slope = (objective(x + 1e-6) - objective(x - 1e-6)) / 2e-6
        [found] = advantage_factors([advantage], [ratio], clip=(0.2, 0.28))
        assert found == pytest.approx(slope, abs=1e-6)


def test_the_printed_factor_bounds_advantages_and_differs():
    assert printed_factors([3.0, 0.1, -3.0]).tolist() == [1.2, 0.1, -3.0]
    assert advantage_factors([3.0, 0.1, -3.0]).tolist() == [3.0, 0.1, -3.0]
