"""Allocation by difficulty: the posterior's weight, the integer allocation, and what counts as evidence."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from outrider.explore import Cures
from outrider.explore.cures import share_out
from outrider.explore.memory import remember
from outrider.record import Context
from outrider.testing.scripted import POOL
from scripted import batch, group, members, view


def seen(*endings: str, **options: object) -> Cures:
    """A stage that has observed these groups of the pool's problems, in one step."""
    stage = Cures(**options)
    stage.observe(batch(*endings))
    return stage


# The weight


@given(st.tuples(st.integers(0, 30), st.integers(0, 30)), st.sampled_from([(1.0, 1.0), (0.5, 0.5), (2.0, 3.0)]))
def test_the_weight_is_the_expected_deviation_under_the_posterior(counts, prior):
    """Against the integral of sqrt(p (1 - p)) over the Beta density, by p = sin^2 x, which has no poles for a, b."""
    stage = seen("1" * counts[0] + "0" * counts[1], prior=prior)
    a, b = prior[0] + counts[0], prior[1] + counts[1]
    x = (np.arange(20000) + 0.5) * (np.pi / 2 / 20000)
    log_density = (2 * a - 1) * np.log(np.sin(x)) + (2 * b - 1) * np.log(np.cos(x))
    density = np.exp(log_density - log_density.max())
    expected = (density * np.sin(x) * np.cos(x)).sum() / density.sum()
    assert stage.weight(POOL[0].id) == pytest.approx(expected, rel=1e-6)


def test_hand_weights():
    # B(3/2, 3/2) / B(1, 1) = Γ(3/2)^2 / Γ(3) = (π / 4) / 2
    assert Cures().weight("new") == pytest.approx(np.pi / 8)
    # Beta(2, 1): B(5/2, 3/2) / B(2, 1) = (3/4 √π)(1/2 √π) / 3! · 2 = π / 8, by chance the same
    assert seen("1").weight("p0") == pytest.approx(np.pi / 8)
    # Beta(3, 1): B(7/2, 3/2) / B(3, 1) = (15/8 √π)(1/2 √π) / 4! · 3 = 15 π / 128
    assert seen("11").weight("p0") == pytest.approx(15 * np.pi / 128)


def test_half_solved_problems_weigh_most_and_beginning_and_end_weigh_the_same():
    stage = seen(*("1" * k + "0" * (16 - k) for k in range(17)))
    weights = [stage.weight(POOL[k].id) for k in range(17)]
    assert weights[8] == max(weights)
    assert weights == weights[::-1]  # to the last bit: a tie of two problems is cut by the seed, not by rounding
    assert all(a < b for a, b in itertools.pairwise(weights[:9]))
    assert min(weights) > 0


# The allocation


def partitions(total: int, parts: int, low: int, high: int):
    """All ways to share ``total`` among ``parts``, within the bounds."""
    return (p for p in itertools.product(range(low, high + 1), repeat=parts) if sum(p) == total)


@given(
    st.lists(st.floats(0.01, 0.5), min_size=1, max_size=4),
    st.integers(1, 3),
    st.integers(1, 6),
    st.data(),
)
def test_no_allocation_within_the_bounds_has_less_variance(weights, low, width, data):
    """Against all allocations: sum of w^2 / n, the variance of a mean of problem-wise means."""
    high = low + width
    total = data.draw(st.integers(low * len(weights), high * len(weights)))
    found = share_out(weights, total, (low, high), range(len(weights)))
    assert sum(found) == total
    assert all(low <= n <= high for n in found)
    best = min(
        sum(w * w / n for w, n in zip(weights, p, strict=True)) for p in partitions(total, len(weights), low, high)
    )
    assert sum(w * w / n for w, n in zip(weights, found, strict=True)) == pytest.approx(best, rel=1e-12)


def test_large_shares_are_proportional():
    weights = [0.05, 0.1, 0.2, 0.4]
    assert share_out(weights, 7500, (1, 10_000), range(4)) == [500, 1000, 2000, 4000]


@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 8))
def test_equal_weights_share_evenly_and_ties_fall_to_the_lower(problems, low, rest):
    ties = [(7 * i) % 41 for i in range(problems)]
    rest = min(rest, problems)
    found = share_out([0.3] * problems, low * problems + rest, (low, low + 1), ties)
    order = sorted(range(problems), key=lambda i: ties[i])
    assert [found[i] for i in order] == [low + 1] * rest + [low] * (problems - rest)


# The stage


def asked(stage: Cures, groups, **rest: object) -> list[int]:
    counts = {r.problem.id: r.n for r in stage.plan(view(groups, **rest))}
    return [counts.get(g.problem.id, 0) for g in groups]


def test_the_first_epoch_is_uniform():
    stage = Cures(n=5)
    assert asked(stage, batch("", "", "")) == [5, 5, 5]
    assert stage.observe([]) == {"known": 0.0, "fewest": 5.0, "most": 5.0}


def test_hard_and_easy_problems_get_fewer_and_the_sum_is_kept():
    stage = seen("0" * 20, "1" * 20, "10" * 10, n=8, min_n=2, max_n=32)
    found = asked(stage, batch("", "", "", ""))
    assert sum(found) == 32
    assert found[2] == max(found)
    assert abs(found[0] - found[1]) <= 1  # equal weights
    assert found[0] < 8 < found[2]
    assert stage.observe([]) == {"known": 3.0, "fewest": float(min(found)), "most": float(max(found))}


def test_floor_and_cap_hold():
    stage = seen(*["0" * 400] * 7, "10" * 200, n=6, min_n=3, max_n=12)
    found = asked(stage, batch(*[""] * 8))
    assert found[7] == 12
    assert sum(found) == 48
    assert min(found) >= 3


def test_what_has_rollouts_gets_no_more_and_a_second_round_gets_nothing():
    assert asked(Cures(n=4), batch("", "10", "")) == [4, 0, 4]
    assert Cures().plan(view(batch("", ""), round=1)) == []
    assert Cures().plan(view([])) == []


@pytest.mark.parametrize("options", [{"n": 1}, {"n": 40}, {"min_n": 9}, {"max_n": 7}])
def test_a_budget_that_cannot_be_spent_is_refused_when_the_recipe_is_read(options):
    with pytest.raises(ValidationError, match="the mean over a step's problems, so it must lie between"):
        Cures(**options)


@pytest.mark.parametrize("options", [{"prior": (0.0, 1.0)}, {"memory": 1.1}, {"min_n": 0}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ValidationError):
        Cures(**options)


# The evidence


def evidence(stage: Cures) -> dict[str, list[float]]:
    return {key: counts for key, *counts in stage.state_dict()["evidence"]}


def test_evidence_adds_up_over_visits_and_fades():
    stage, fading = Cures(), Cures(memory=0.5)
    for endings in ("1100", "1", "000"):
        for each in (stage, fading):
            each.observe([group(endings)])
    assert evidence(stage) == {"p0": [3.0, 5.0]}
    # (2, 2) -> (1 + 1, 1) -> (1, 0.5 + 3)
    assert evidence(fading) == {"p0": [1.0, 3.5]}


def test_only_the_plain_prompt_and_what_a_verifier_verified_are_evidence():
    base = group("10ee")
    parent = base.rollouts[0]
    base = base.joined(members("11", first=4, parent=parent.id, prefix_ids=parent.token_ids[:1]))
    base = base.joined(members("11", first=6, context=Context("seeded", ("p1",))))
    base = base.joined(members("1", first=8, context=Context(trained="excluded")))  # the greedy yardstick
    stage = Cures()
    stage.observe([base, group("ee", POOL[1]), group("", POOL[2]), group("11", POOL[3]).excluded("refill: solved")])
    assert evidence(stage) == {"p0": [1.0, 1.0], "p3": [2.0, 0.0]}


def test_memory_is_bounded_and_the_latest_are_kept_after_a_resume_too():
    stage = Cures()
    for step in range(3):
        stage.observe(batch("10", "01") if step != 1 else [group("11", POOL[5])])
    assert list(evidence(stage)) == ["p5", "p0", "p1"]
    again = Cures()
    again.load_state_dict(json.loads(json.dumps(stage.state_dict())))
    assert list(evidence(again)) == ["p5", "p0", "p1"]
    memory: dict[str, int] = {}
    for i in range(10):
        remember(memory, f"p{i % 7}", i, most=5)
    assert memory == {"p5": 5, "p6": 6, "p0": 7, "p1": 8, "p2": 9}
