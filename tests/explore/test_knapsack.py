"""Knapsack RL: the value of a rollout, the allocation of the largest sum, and which outcomes a pass rate is from."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from outrider.explore import Knapsack
from outrider.explore.apportion import raised
from outrider.explore.knapsack import enough, value
from outrider.record import Context
from outrider.testing.scripted import POOL
from scripted import batch, group, members, view

RATES = st.sampled_from([None, 0.0, 1.0, *(k / 16 for k in range(1, 16))])


def mixed(p: float) -> bool:
    return 0 < p < 1


# The value of a rollout


@pytest.mark.parametrize("p", [0.0, 0.1, 1 / 3, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_the_value_is_the_chance_of_a_mixed_group_times_what_an_update_gains(n, p):
    groups = itertools.product([0, 1], repeat=n)
    chance = sum(math.prod(p if x else 1 - p for x in g) for g in groups if 0 < sum(g) < n)
    # pass rate s(z), a step along s'(z) = p (1 - p): the odds weigh p (1 - p), the room above p weighs 1 - p
    assert value(n, p) == pytest.approx(chance * p * (1 - p) ** 2, abs=1e-15)


def test_what_an_update_gains_is_largest_at_a_third():
    far = 1000  # rollouts, so that nearly every group is mixed
    assert max((value(far, k / 300), k) for k in range(1, 300))[1] == 100


@given(st.floats(0.001, 0.999), st.integers(1, 100))
def test_the_next_rollout_has_less_value_than_the_last(p, n):
    """What makes the largest gain first an optimum."""
    assert value(n + 1, p) - value(n, p) <= value(n, p) - value(n - 1, p) + 1e-12


@given(st.floats(0.01, 0.99), st.floats(0.1, 0.99))
def test_enough_makes_the_more_frequent_kind_alone_unlikely(p, chance):
    n, often = enough(p, chance, 10**6), max(p, 1 - p)
    assert often ** (n + 1) <= (1 - chance) * (1 + 1e-9)
    assert often**n >= (1 - chance) * (1 - 1e-9)


# The allocation


@given(st.lists(st.integers(0, 40), min_size=1, max_size=4), st.integers(0, 9), st.integers(1, 5), st.data())
def test_one_after_another_to_the_largest_gain_is_the_best_of_all_allocations(firsts, total, most, data):
    """Any falling gains; starts, a cap, and members that are left alone."""
    gains = [sorted(data.draw(st.lists(st.integers(0, 20), min_size=9, max_size=9)), reverse=True) for _ in firsts]
    starts = [first % (most + 1) for first in firsts]
    among = data.draw(st.sets(st.sampled_from(range(len(firsts)))))
    found = raised(starts, total, most, lambda i, n: gains[i][n], list(range(len(firsts))), among)
    ranges = [range(s, most + 1) if i in among else [s] for i, s in enumerate(starts)]
    room = sum(r[-1] - r[0] for r in ranges)
    possible = [c for c in itertools.product(*ranges) if sum(c) == sum(starts) + min(total, room)]

    def gained(counts):
        return sum(sum(g[s:n]) for g, s, n in zip(gains, starts, counts, strict=True))

    assert tuple(found) in possible
    assert gained(found) == max(map(gained, possible))


@given(st.lists(RATES.filter(lambda p: p is not None and mixed(p)), min_size=1, max_size=4), st.integers(2, 4))
def test_mixed_problems_have_the_best_of_all_allocations(rates, n):
    stage = Knapsack(n=n, min_n=1, max_n=7)
    found = stage.shares(rates, range(len(rates)))
    possible = [c for c in itertools.product(range(1, 8), repeat=len(rates)) if sum(c) == n * len(rates)]
    best = max(sum(map(value, c, rates)) for c in possible)
    assert tuple(found) in possible
    assert sum(map(value, found, rates)) == pytest.approx(best, rel=1e-12)


@given(st.lists(RATES, max_size=9), st.integers(2, 9), st.integers(1, 2), st.sampled_from([9, 20, 128]))
def test_the_budget_is_spent_in_the_order_that_the_docstring_says(rates, n, min_n, max_n):
    stage = Knapsack(n=n, min_n=min_n, max_n=max_n)
    found = stage.shares(rates, range(len(rates)))
    assert sum(found) == n * len(rates)
    assert all(min_n <= count <= max_n for count in found)
    of = {kind: [c for c, p in zip(found, rates, strict=True) if kind(p)] for kind in (new, ends_at(0), ends_at(1))}
    tried = [(c, p) for c, p in zip(found, rates, strict=True) if p is not None and mixed(p)]
    wanted = sum(enough(p, 0.9, max_n) for _, p in tried)
    extra = sum(c - min_n for c, _ in tried)
    unsolved, solved = of[ends_at(0)], of[ends_at(1)]
    if extra < min(wanted, sum(max_n - min_n for _ in tried)):
        assert set(unsolved) | set(solved) <= {min_n}  # the mixed ones took everything
    if extra > wanted:  # beyond enough, only when there is nobody else
        assert set(unsolved) | set(solved) <= {max_n}
    if unsolved and max(unsolved) < max_n:
        assert set(solved) <= {min_n}
    assert all(max(kind, default=0) - min(kind, default=0) <= 1 for kind in (unsolved, solved))
    assert all(c == n for c in of[new]) or all(c == max_n for c in (*unsolved, *solved, *(c for c, _ in tried)))


def new(p):
    return p is None


ENDS = {end: (lambda p, end=end: p == end) for end in (0, 1)}


def ends_at(end):
    return ENDS[end]


def asked(stage: Knapsack, groups, **rest: object) -> list[int]:
    counts = {r.problem.id: r.n for r in stage.plan(view(groups, **rest))}
    return [counts.get(g.problem.id, 0) for g in groups]


def test_the_first_epoch_is_uniform_and_what_has_rollouts_gets_none():
    stage = Knapsack(n=5)
    assert asked(stage, batch("", "", "")) == [5, 5, 5]
    assert stage.observe([]) == {"known": 0.0, "mixed": 0.0, "unsolved": 0.0, "fewest": 5.0, "most": 5.0}
    assert asked(stage, batch("", "10", "")) == [5, 0, 5]
    assert stage.plan(view(batch("", ""), round=1)) == stage.plan(view([])) == []


@pytest.mark.parametrize(
    ("endings", "wanted"),
    [
        (["0" * 8] * 3, [8, 8, 8]),  # nothing to compare: the unsolved share
        (["1" * 8] * 3, [8, 8, 8]),
        (["0" * 8, "1" * 8, "1" * 8], [20, 2, 2]),  # all that is saved
        (["10" * 4] * 3, [8, 8, 8]),  # five times enough, and nobody else
    ],
)
def test_steps_without_mixed_problems_or_with_nothing_else(endings, wanted):
    stage = Knapsack()
    stage.observe(batch(*endings))
    assert asked(stage, batch("", "", "")) == wanted


def test_a_hard_problem_gets_many():
    """One success in 16 beside seven solved problems: 35 of the 42 rollouts that are saved."""
    stage = Knapsack()
    stage.observe(batch("1" + 15 * "0", *["1" * 16] * 7))
    found = asked(stage, batch(*[""] * 8))
    assert found[0] == 2 + 35
    assert sorted(found[1:]) == [3, 4, 4, 4, 4, 4, 4]


# The pass rate


@given(st.lists(st.text("01", min_size=1, max_size=20), max_size=6), st.integers(1, 16))
def test_the_pass_rate_is_of_the_last_visit_or_of_a_window_over_visits(visits, window):
    """By the released rule: every outcome is kept, and read backwards until there are enough."""
    stage = Knapsack(window=window, known=1)
    for endings in visits:
        stage.observe([group(endings)])
    if not visits:
        assert stage.rate("p0") is None
        return
    last, every = visits[-1], "".join(visits)
    counted = last if len(last) >= window else every[-window:]
    assert stage.rate("p0") == sum(map(int, counted)) / len(counted)


def test_a_pass_rate_is_known_after_so_many_rollouts():
    stage = Knapsack(known=4)
    stage.observe([group("111")])
    assert stage.rate("p0") is None
    stage.observe([group("0")])
    assert stage.rate("p0") == 0.75


def test_only_the_plain_prompt_and_what_a_verifier_verified_are_evidence():
    base = group("10ee")
    parent = base.rollouts[0]
    base = base.joined(members("11", first=4, parent=parent.id, prefix_ids=parent.token_ids[:1]))
    base = base.joined(members("11", first=6, context=Context("seeded", ("p1",))))
    base = base.joined(members("1", first=8, context=Context(trained="excluded")))  # the greedy yardstick
    stage = Knapsack(known=1)
    stage.observe([base, group("ee", POOL[1]), group("", POOL[2]), group("11", POOL[3]).excluded("refill: solved")])
    assert stage.state_dict() == {"seen": [["p0", "10"], ["p3", "11"]]}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"n": 1}, "must lie between min_n, which is 2, and max_n, which is 128"),
        ({"n": 200}, "must lie between"),
        ({"known": 17}, "known is 17, but only the last 16 rollouts are kept"),
    ],
)
def test_what_cannot_be_is_refused_when_the_recipe_is_read(options, says):
    with pytest.raises(ValidationError, match=says):
        Knapsack(**options)
