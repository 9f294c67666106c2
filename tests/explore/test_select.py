"""Selectors against their definitions, searched or counted the slow way."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.errors import UserError
from outrider.explore.recover import Recoverability
from outrider.explore.segment import SegmentedRollout
from outrider.explore.select import Pivot, PivotOutcome, Selector, Source
from outrider.explore.select.attention import Attention
from outrider.explore.select.boundary import Boundary
from outrider.explore.select.top import Entropy, Surprisal
from outrider.explore.select.uniform import Root, UniformCut
from outrider.explore.select.utility import Utility
from outrider.record import Rollout
from outrider.testing.scripted import ScriptedEngine

DRAWS = 4000


def rollout(length: int, member: int = 0, parent: Rollout | None = None, at: int = 0, **rest: object) -> Rollout:
    """``length`` counts own tokens."""
    values_T = np.random.default_rng(member).exponential(size=length).astype(np.float32)
    return Rollout(
        problem_id="p",
        group_id="g",
        member=member,
        prompt_ids=np.array([1], np.int32),
        token_ids=np.arange(length, dtype=np.int32),
        logprobs_T=-values_T,
        prefix_ids=np.zeros(0, np.int32) if parent is None else parent.response_ids[:at],
        parent=None if parent is None else parent.id,
        **{"entropies_T": values_T[::-1].copy(), **rest},
    )


def chain(
    length: int, bounds: Sequence[int], candidates: Sequence[int] | None = None, **rest: object
) -> SegmentedRollout:
    return SegmentedRollout(rollout(length, **rest), bounds, bounds if candidates is None else candidates)


def source(
    *chains: SegmentedRollout, seed: int = 0, round: int = 0, branches: int = 1, engine: object = None
) -> Source:
    return Source(chains, len(chains), round, branches, seed, engine or ScriptedEngine())


def places(picks: Sequence[Pivot]) -> list[tuple[int, int]]:
    return [(pivot.rollout.member, pivot.at) for pivot in picks]


def counted(selector: Selector, pivots: int, *chains: SegmentedRollout) -> Counter[tuple[int, ...]]:
    drawn = (selector.select(source(*chains, seed=seed), pivots) for seed in range(DRAWS))
    return Counter(tuple(pivot.at for pivot in picks) for picks in drawn)


def assert_drawn(counts: Counter[tuple[int, ...]], expected: dict[tuple[int, ...], float]) -> None:
    """Every count within five standard deviations of a multinomial's."""
    assert sum(expected.values()) == pytest.approx(1)
    assert set(counts) <= set(expected)
    for outcome, p in expected.items():
        assert counts[outcome] == pytest.approx(DRAWS * p, abs=5 * math.sqrt(DRAWS * p * (1 - p)) + 1e-9)


def without_replacement(weights: dict[int, float], pivots: int) -> dict[tuple[int, ...], float]:
    """The chance of every ordered draw, one after another."""
    chances = {}
    for order in itertools.permutations(weights, pivots):
        left, chance = sum(weights.values()), 1.0
        for at in order:
            chance *= weights[at] / left
            left -= weights[at]
        chances[order] = chance
    return chances


# Recoverability


def known(n: int, w: float = -6.0, b: float = 3.0, seed: int = 0) -> tuple[list[float], list[bool]]:
    rng = np.random.default_rng(seed)
    ratios = rng.uniform(size=n)
    return ratios.tolist(), (rng.uniform(size=n) < 1 / (1 + np.exp(-(w * ratios + b)))).tolist()


def test_the_fit_is_the_penalised_optimum():
    """Where log-loss plus w²/2 is flat (C = 1, the intercept is not penalised)."""
    ratios, recovered = known(300)
    made = Recoverability(10_000)
    made.learn(ratios, recovered)
    p = 1 / (1 + np.exp(-(made.w * np.array(ratios) + made.b)))
    residuals = p - np.array(recovered)
    assert made.w + residuals @ ratios == pytest.approx(0, abs=0.01)
    assert residuals.sum() == pytest.approx(0, abs=0.01)
    assert -6.5 < made.w < -3  # drawn with -6, and shrunk
    np.testing.assert_allclose(made.log_probability(np.array(ratios)), np.log(p))


@pytest.mark.parametrize(
    ("successes", "failures", "warm"), [(5, 5, False), (1, 10, True), (6, 5, True), (0, 50, False), (50, 0, False)]
)
def test_cold_start_ends_with_more_than_ten_outcomes_of_both_kinds(successes, failures, warm):
    made = Recoverability(10_000)
    made.learn(np.linspace(0.1, 0.9, successes + failures).tolist(), [True] * successes + [False] * failures)
    assert (made.w is not None) == warm
    assert (made.log_probability(np.array([0.2, 0.5, 0.8])) == 0).all() != warm


def test_the_memory_forgets_the_oldest():
    ratios, recovered = known(100)
    long, short = Recoverability(30), Recoverability(10_000)
    for at in range(0, 100, 7):
        long.learn(ratios[at : at + 7], recovered[at : at + 7])
    short.learn(ratios[-30:], recovered[-30:])
    assert long.ratios == ratios[-30:]
    assert (long.w, long.b) == (short.w, short.b)
    long.learn([0.5] * 30, [True] * 30)  # one kind alone: nothing is known any more
    assert long.w is None


def test_recoverability_goes_on_from_its_state():
    made, again = Recoverability(50), Recoverability(50)
    made.learn(*known(40))
    again.load_state_dict(json.loads(json.dumps(made.state_dict())))
    assert again == made
    for one in (made, again):
        one.learn(*known(20, seed=1))
    assert again == made


# Utility


@pytest.mark.parametrize("gamma", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("warm", [False, True])
def test_one_pivot_is_drawn_with_the_utility_as_weight(gamma, warm):
    made = Utility(gamma=gamma)
    w = b = 0.0
    if warm:
        learned = made.observe([PivotOutcome(r, y, True) for r, y in zip(*known(300), strict=True)])
        w, b = learned["w"], learned["b"]
    cuts = [3, 7, 12, 17]
    q = {t: (t / 20) ** gamma * (1 / (1 + math.exp(-(w * t / 20 + b))) if warm else 1) for t in cuts}
    expected = {(t,): q[t] / sum(q.values()) for t in cuts}
    assert_drawn(counted(made, 1, chain(20, cuts)), expected)


def test_several_pivots_are_drawn_without_replacement():
    cuts = [2, 5, 9]
    expected = without_replacement({t: (t / 10) ** 2 for t in cuts}, 2)
    assert_drawn(counted(Utility(), 2, chain(10, cuts)), expected)


def test_depth_counts_the_whole_path_and_only_candidates_are_drawn():
    parent = rollout(9)
    branch = rollout(6, member=1, parent=parent, at=4)
    one = SegmentedRollout(branch, [2, 4, 6, 8], [6, 8])
    assert one.length == 10
    assert_drawn(counted(Utility(gamma=1), 1, one), {(6,): 6 / 14, (8,): 8 / 14})


def test_the_root_counts_as_one_more_chunk():
    """(i + 1) / (segments + 1) for cuts i = 0 … of five equal chunks: 1, 2, 3, 4, 5 of 6."""
    made = Utility(gamma=2, include_root=True)
    squares = {at: (i + 1) ** 2 for i, at in enumerate([0, 10, 20, 30, 40])}
    expected = {(at,): s / sum(squares.values()) for at, s in squares.items()}
    assert_drawn(counted(made, 1, chain(50, [10, 20, 30, 40])), expected)
    assert places(made.select(source(chain(5, [])), 3)) == [(0, 0)]
    assert places(made.select(source(chain(0, [])), 3)) == [(0, 0)]


def test_the_root_is_as_recoverable_as_depth_zero():
    made = Utility(gamma=1, include_root=True)
    learned = made.observe([PivotOutcome(r, y, True) for r, y in zip(*known(300), strict=True)])
    w, b = learned["w"], learned["b"]
    q = {at: (at + 10) / 40 / (1 + math.exp(-(w * at / 30 + b))) for at in (0, 10, 20)}
    assert_drawn(counted(made, 1, chain(30, [10, 20])), {(at,): q[at] / sum(q.values()) for at in q})


@given(st.integers(0, 2**40), st.integers(1, 9), st.sets(st.integers(1, 29), max_size=12))
def test_utility_gives_different_cuts_as_many_as_there_are(seed, pivots, cuts):
    picks = Utility().select(source(chain(30, sorted(cuts)), seed=seed), pivots)
    assert len({p.at for p in picks}) == len(picks) == min(pivots, len(cuts))
    assert {p.at for p in picks} <= cuts


def test_extreme_depth_preference_neither_overflows_nor_forgets():
    deep = Utility(gamma=1000.0)
    assert counted(deep, 3, chain(1000, [1, 2, 999])) == {(999, 2, 1): DRAWS}


def test_utility_says_what_it_knows():
    made = Utility(memory=15)
    assert math.isnan(made.observe([])["w"])
    learned = made.observe([PivotOutcome(r, y, True) for r, y in zip(*known(40), strict=True)])
    again = Utility(memory=15)
    again.load_state_dict(json.loads(json.dumps(made.state_dict())))
    assert again.observe([]) == made.observe([]) == learned
    assert learned["outcomes"] == 15


# Anywhere, and nowhere


def test_uniform_draws_from_the_prompt_and_all_cuts_of_a_tree_with_replacement():
    one, two = chain(9, [3, 6]), chain(5, [2], member=1)
    counts = Counter(places(UniformCut().select(source(one, two, seed=s), 2))[0] for s in range(DRAWS))
    assert set(counts) == {(0, 0), (0, 3), (0, 6), (1, 2)}
    for n in counts.values():
        assert n == pytest.approx(DRAWS / 4, abs=5 * math.sqrt(DRAWS * 3 / 16))
    pairs = counted(UniformCut(include_root=False), 2, one)
    assert_drawn(pairs, dict.fromkeys(itertools.product([3, 6], repeat=2), 1 / 4))


def test_uniform_without_cuts():
    assert places(UniformCut().select(source(chain(1, [])), 2)) == [(0, 0), (0, 0)]
    assert UniformCut(include_root=False).select(source(chain(1, [])), 2) == []


def test_root_is_the_prompt_as_often_as_there_are_pivots():
    assert places(Root().select(source(chain(9, [3])), 3)) == [(0, 0)] * 3


# The most uncertain tokens


@st.composite
def trees(draw: st.DrawFn) -> list[SegmentedRollout]:
    """Chains with equal signals now and then, cut where they may."""
    chains: list[SegmentedRollout] = []
    for member in range(draw(st.integers(1, 4))):
        parent = None if not chains else draw(st.sampled_from(chains)).rollout
        at = 0 if parent is None else draw(st.integers(0, len(parent.response_ids)))
        values_T = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), max_size=8))
        signal_T = np.array(values_T, np.float32)
        one = rollout(len(values_T), member, parent, at, entropies_T=signal_T[::-1].copy())
        object.__setattr__(one, "logprobs_T", -signal_T)
        cuts = [t for t in range(at + 1, at + len(values_T)) if draw(st.booleans())]
        chains.append(SegmentedRollout(one, cuts, cuts))
    return chains


@given(trees(), st.integers(1, 6), st.booleans())
def test_the_most_uncertain_cuts_of_a_tree_are_taken(chains, pivots, entropy):
    """The best subset by exhaustive search; ties to the earlier member, then the earlier token."""
    uncertainty = {}
    for one in chains:
        own_T = one.rollout.entropies_T if entropy else -one.rollout.logprobs_T
        for t in one.candidates:
            replaced = one.rollout.response_ids[t]
            assert replaced == one.rollout.token_ids[t - one.rollout.branch_at]
            uncertainty[one.rollout.member, t] = float(own_T[t - one.rollout.branch_at])
    selector = Entropy() if entropy else Surprisal()
    picks = places(selector.select(source(*chains), pivots))
    assert len(set(picks)) == len(picks) == min(pivots, len(uncertainty))
    for picked in picks:
        for other in set(uncertainty) - set(picks):
            assert (-uncertainty[picked], picked) < (-uncertainty[other], other)


def test_entropy_says_what_it_lacks():
    with pytest.raises(UserError, match=r"select\.entropy needs the entropy of every token"):
        Entropy().select(source(chain(5, [2], entropies_T=None)), 1)
    assert Surprisal().select(source(chain(5, [2], entropies_T=None)), 1)
    assert Entropy().select(source(chain(5, [], entropies_T=None)), 1) == []


# Attention


class Looking(ScriptedEngine):
    """Gives a fixed attention, and notes for which steps it was asked."""

    def __init__(self, attention_HSS: np.ndarray) -> None:
        self.given, self.asked = attention_HSS, []

    def attention(self, rollout: Rollout, starts: Sequence[int]) -> np.ndarray:
        self.asked.append(list(starts))
        return self.given


def looking(steps: int, seed: int, heads: int = 3) -> Looking:
    causal = np.tril(np.random.default_rng(seed).exponential(size=(heads, steps, steps)))
    return Looking(causal)


@settings(max_examples=60)
@given(st.integers(1, 14), st.integers(0, 10**6), st.integers(1, 4), st.integers(0, 9), st.integers(1, 4), st.data())
def test_attention_takes_influential_steps_from_the_front(steps, seed, ahead, distance, pivots, data):
    bounds = sorted(data.draw(st.sets(st.integers(1, 59), min_size=steps - 1, max_size=steps - 1)))
    cuts = bounds[: data.draw(st.integers(0, len(bounds)))]  # the rest lies behind an answer
    engine = looking(steps, seed)
    selector = Attention(quantile=0.6, ahead=ahead, distance=distance)
    picks = [p.at for p in selector.select(source(chain(60, bounds, cuts), engine=engine), pivots)]
    if not cuts:
        assert picks == []
        assert engine.asked == []
        return
    assert engine.asked == [[0, *bounds]]
    influence = {}
    for i, start in enumerate([0, *bounds]):
        sums = [sum(engine.given[h, j, i] for j in range(i + ahead, steps)) for h in range(3)]
        influence[start] = max(sums) if start in cuts else 0.0
    ranked = sorted(influence.values())  # the 60 % quantile of S values, interpolated between neighbours
    place = 0.6 * (steps - 1)
    low, high = ranked[math.floor(place)], ranked[math.ceil(place)]
    threshold = low + (place - math.floor(place)) * (high - low)
    if threshold == 0 and any(influence.values()):
        threshold = min(value for value in influence.values() if value)
    expected: list[int] = []
    for t in cuts:
        good = influence[t] >= threshold - 1e-12
        if good and t >= distance and all(t - s >= distance for s in expected):
            expected.append(t)
    expected = expected[:pivots]
    for t in cuts:
        if len(expected) < pivots and t not in expected:
            expected.append(t)
    assert picks == expected


def test_attention_defaults_are_those_of_the_released_code():
    assert Attention().model_dump() == {"quantile": 0.8, "ahead": 4, "distance": 512}


def test_one_strong_head_suffices():
    attention = np.zeros((4, 6, 6))
    attention[2, 5, 1], attention[:, 4, 3] = 0.9, 0.2  # step 1 in one head, step 3 in all
    picks = Attention(ahead=1, distance=0).select(source(chain(12, [2, 4, 6, 8, 10]), engine=Looking(attention)), 1)
    assert places(picks) == [(0, 2)]


@given(st.integers(1, 14), st.integers(0, 10**6), st.integers(1, 5))
def test_influence_is_the_most_that_a_head_looks_back(steps, seed, ahead):
    attention = looking(steps, seed).given
    expected = [
        max(sum(attention[h, j, i] for j in range(steps) if j - i >= ahead) for h in range(3)) for i in range(steps)
    ]
    np.testing.assert_allclose(Attention(ahead=ahead).influence(attention), expected)


def test_steps_that_nobody_looks_at_are_the_last_resort():
    """Only step 4 of ten has influence; the quantile is 0, and yet the earlier steps wait."""
    attention = np.zeros((1, 10, 10))
    attention[0, 9, 4] = 0.5
    one = chain(20, list(range(2, 20, 2)))
    picks = Attention(distance=0).select(source(one, engine=Looking(attention)), 2)
    assert places(picks) == [(0, 8), (0, 2)]


# Boundaries


def test_boundaries_divide_paths_level_by_level_within_the_width():
    chains = [chain(9, [2, 4, 6], member=m) for m in range(3)]
    made = Boundary(depth=2, width=8)
    first = places(made.select(source(*chains), 9))
    assert sorted(first) == [(0, 2), (1, 2), (2, 2)]
    assert {at for _, at in places(made.select(source(*chains, round=1), 9))} == {4}
    assert len(made.select(source(*chains, round=1), 2)) == 2
    assert len(Boundary(width=8).select(source(*chains, branches=4), 9)) == 1
    assert Boundary(width=6).select(source(*chains, branches=4), 9) == []
    assert Boundary(width=3).select(source(*chains), 9) == []


def test_what_no_boundary_takes_is_spent_at_random_places():
    chains = [chain(9, [2, 4, 6]), chain(3, [2], member=1)]
    drawn = Counter(
        place
        for seed in range(1000)
        for place in places(Boundary(depth=1, width=6).select(source(*chains, seed=seed, round=1), 9))
    )
    assert drawn.total() == 4000
    chances = {(0, at): 1 / 8 for at in (0, 2, 4, 6)} | {(1, at): 1 / 4 for at in (0, 2)}
    assert set(drawn) == set(chances)
    for place, p in chances.items():
        assert drawn[place] == pytest.approx(4000 * p, abs=5 * math.sqrt(4000 * p * (1 - p)))


def test_who_divides_first_is_drawn():
    chains = [chain(9, [2], member=m) for m in range(4)]
    firsts = Counter(places(Boundary(width=5).select(source(*chains, seed=s), 9))[0][0] for s in range(400))
    assert min(firsts[m] for m in range(4)) > 60


def test_a_selector_without_state_refuses_one():
    with pytest.raises(ValueError, match="Surprisal keeps no state"):
        Surprisal().load_state_dict({"w": 1})
