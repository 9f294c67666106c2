"""The rules that every piece of credit keeps, as one matrix of pieces and rules.

A new piece joins by a line or two in ``CASES`` of ``credit_cases.py``: an example that was worked by hand, and the laws
that it keeps. A piece without one fails ``test_every_piece_is_in_the_matrix``. A piece is tested in a chain, so that
all have the same input and output: a baseline alone, a reward shaper before and a shaper after a plain baseline, a
shaper also after one that tells tokens apart. ``test_credit_mutations.py`` breaks pieces on purpose.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Literal, get_args, get_origin

import numpy as np
import pytest

from credit_cases import CASES, STEP, Case
from credit_groups import EMPTY, FLAT, FORESTS, GROUPS, STREAMS, parts, picked, with_rewards
from outrider.credit import (
    BASELINES,
    REWARD_SHAPERS,
    SHAPERS,
    Baseline,
    BatchBaseline,
    GroupMean,
    Link,
    Members,
    RewardShaper,
    Shaper,
    TreeValues,
    advantages_of,
)

Result = list[list[np.ndarray]]
NOTHING = np.zeros(0)
PIECES: dict[str, type[Link]] = {**REWARD_SHAPERS, **BASELINES, **SHAPERS}


def chains(piece: Link) -> list[list[Link]]:
    """The chains in which a piece is tested."""
    if isinstance(piece, RewardShaper):
        return [[piece, GroupMean(std=False)]]
    if isinstance(piece, Shaper):
        return [[GroupMean(std=False), piece], [TreeValues(), piece]]
    return [[piece]]


def run(chain: Sequence[Link], groups: Sequence[Members]) -> Result:
    return advantages_of(chain, groups, STEP)


def alone(chain: Sequence[Link], members: Members) -> list[np.ndarray]:
    return run(chain, [members])[0]


def assert_close(found: Sequence[np.ndarray], expected: Sequence[np.ndarray], atol: float = 1e-12) -> None:
    """Members end to end: one comparison of many numbers costs what one of few does."""
    assert [len(a) for a in found] == [len(a) for a in expected]
    np.testing.assert_allclose(np.concatenate([NOTHING, *found]), np.concatenate([NOTHING, *expected]), 1e-9, atol)


def each(case: Case, groups: Sequence[Members] = GROUPS) -> Iterator[tuple[list[Link], Members]]:
    return itertools.product(chains(case.piece), groups)


# The rules


def its_example_is_as_it_was_worked_by_hand(case: Case) -> None:
    if isinstance(case.piece, RewardShaper):
        found = [case.piece.rewards(group, STEP) for group in case.on]
    else:
        found = run([case.after, case.piece] if isinstance(case.piece, Shaper) else [case.piece], case.on)
    assert len(case.on) > 1 or not isinstance(case.piece, BatchBaseline), "a batch has several groups"
    of_members = list(itertools.chain.from_iterable(found))
    assert len(of_members) == len(case.by_hand)
    for member, (a, by_hand) in enumerate(zip(of_members, case.by_hand, strict=True)):
        np.testing.assert_allclose(a, by_hand, rtol=1e-12, atol=1e-12, err_msg=f"of member {member}")


def one_number_per_trainable_token(case: Case) -> None:
    for chain, stream in itertools.product(chains(case.piece), STREAMS):
        for group, found in zip(stream, run(chain, stream), strict=True):
            assert [len(a) for a in found] == group.tokens_G.tolist()
            assert all(a.dtype == np.float64 and np.isfinite(a).all() for a in found)


def it_is_pure(case: Case) -> None:
    for chain, stream in itertools.product(chains(case.piece), STREAMS):
        before = [str(parts(group)) for group in stream]
        first = run(chain, stream)
        kept = [[a.tolist() for a in group] for group in first]
        for a in itertools.chain.from_iterable(first):
            a += 1.0  # what it returned is the caller's: no state of the piece, no part of the group
        assert [str(parts(group)) for group in stream] == before
        assert [[a.tolist() for a in group] for group in run(chain, stream)] == kept


def a_shaper_leaves_what_it_was_given_alone(case: Case) -> None:
    if not isinstance(case.piece, Shaper):
        return
    for group in GROUPS:
        given = alone([TreeValues()], group)
        before = [a.tolist() for a in given]
        for a in case.piece.shape(given, group, STEP):
            a += 1.0
        assert [a.tolist() for a in given] == before


def a_permutation_of_the_members_permutes_the_advantages(case: Case) -> None:
    for seed, (chain, group) in enumerate(each(case)):
        order = np.random.default_rng(seed).permutation(group.size)
        found = alone(chain, group)
        assert_close(alone(chain, picked(group, order)), [found[i] for i in order])


def a_permutation_of_the_groups_permutes_the_advantages(case: Case) -> None:
    for chain, stream in itertools.product(chains(case.piece), STREAMS):
        for found, expected in zip(run(chain, stream[::-1])[::-1], run(chain, stream), strict=True):
            assert_close(found, expected)


def groups_do_not_know_each_other_unless_it_says_so(case: Case) -> None:
    if isinstance(case.piece, BatchBaseline):
        return
    for chain, stream in itertools.product(chains(case.piece), STREAMS):
        together = run(chain, stream)
        apart = [alone(chain, group) for group in stream]
        assert [[a.tolist() for a in g] for g in together] == [[a.tolist() for a in g] for g in apart]


def one_member_has_nothing_to_compare_with(case: Case) -> None:
    if not case.compares:
        return
    for chain, group in each(case):
        for i in range(group.size):
            assert not alone(chain, picked(group, [i]))[0].any()
        first = np.arange(group.size) == 0  # beside others that are not valid
        lonely = with_rewards(group, lambda rewards_G, first=first: np.where(first, rewards_G, np.nan))
        assert not any(a.any() for a in alone(chain, lonely))


def equal_rewards_give_exactly_zero(case: Case) -> None:
    if not case.still:
        return
    values = [0.0, 1.0, -1.0, 0.1, 1 / 3, float(np.float32(0.35)), 0.35, 1e6 + 0.1]  # means of some round
    kinds = [np.float64] * len(values) + [np.float32] * 2
    for (chain, group), (value, kind) in itertools.product(
        each(case, FLAT[:4] + FORESTS[:4]), zip(values + values[-2:], kinds, strict=True)
    ):
        equal = np.where(np.isnan(group.rewards_G), np.nan, value).astype(kind)
        same = replace(group, rewards_G=equal, success_G=np.isfinite(equal) & (value > 0.5))
        assert not any(a.any() for a in itertools.chain.from_iterable(run(chain, [same, EMPTY, same])))


def a_member_that_is_not_valid_gets_zero_and_changes_no_sibling(case: Case) -> None:
    """Unscorable, or without a token to train whatever its reward: as if it had never been there."""
    beside = FLAT[3:4] if isinstance(case.piece, BatchBaseline) else []
    for chain, group in each(case):
        leaves = [i for i in range(group.size) if i not in group.parents_G]
        for i in leaves[:2]:
            siblings = [j for j in range(group.size) if j != i]
            expected, *others_expected = run(chain, [picked(group, siblings), *beside])
            for outsider in unscorable(group, i), without_tokens(group, i, 100.0):
                found, *others_found = run(chain, [outsider, *beside])
                assert not found[i].any()
                assert_close([found[j] for j in siblings], expected)
                for a, b in zip(others_found, others_expected, strict=True):
                    assert_close(a, b)


def unscorable(group: Members, i: int) -> Members:
    rewards_G, success_G = group.rewards_G.copy(), group.success_G.copy()
    rewards_G[i], success_G[i] = np.nan, False
    return replace(group, rewards_G=rewards_G, success_G=success_G)


def without_tokens(group: Members, i: int, reward: float) -> Members:
    at = np.arange(group.size) == i
    per_token = {
        name: [np.zeros(0) if j == i else values for j, values in enumerate(getattr(group, name))]
        for name in (field.name for field in fields(Members))
        if name.endswith("_GT")
    }
    rewards_G, success_G = np.where(at, reward, group.rewards_G), np.where(at, reward > 0, group.success_G)
    return replace(
        group, rewards_G=rewards_G, success_G=success_G, tokens_G=np.where(at, 0, group.tokens_G), **per_token
    )


def nobody_is_no_obstacle(case: Case) -> None:
    for chain in chains(case.piece):
        assert run(chain, []) == []
        assert run(chain, [EMPTY, EMPTY]) == [[], []]
        for group in GROUPS[:5]:
            assert not any(a.any() for a in alone(chain, with_rewards(group, lambda r_G: np.full(len(r_G), np.nan))))
            for found, expected in zip(run(chain, [EMPTY, group])[1], alone(chain, group), strict=True):
                assert found.tolist() == expected.tolist()


def a_constant_added_to_all_rewards_changes_nothing_if_it_says_so(case: Case) -> None:
    if not case.shift:
        return
    for chain, group in each(case):
        for constant in (0.25, 2.0**20):  # sums of these and the rewards are exact
            shifted = with_rewards(group, lambda rewards_G, c=constant: rewards_G + c)
            assert_close(alone(chain, shifted), alone(chain, group), atol=1e-9)


def a_factor_on_all_rewards_follows_its_law(case: Case) -> None:
    if case.scale is None:
        return
    for chain, group in each(case):
        for s in (0.25, 2.0**10):  # exact
            found = alone(chain, with_rewards(group, lambda rewards_G, s=s: rewards_G * s))
            assert_close(found, [a * s**case.scale for a in alone(chain, group)], atol=1e-12 * max(s, 1.0))


def a_large_offset_leaves_no_residue_over_an_epsilon(case: Case) -> None:
    """Rewards that were float32, with an offset that takes most of its digits: differences are one or two ulps."""
    if not (isinstance(case.piece, Baseline) and case.compares):
        return
    for group in FLAT:
        noisy = with_rewards(group, lambda r_G: np.float32(1e4 + 1e-3 * r_G).astype(np.float64))
        for a in alone([case.piece], noisy):
            assert np.isfinite(a).all()
            assert np.abs(a).max(initial=0.0) <= 2 * group.size


def a_better_member_never_gets_less(case: Case) -> None:
    if not (isinstance(case.piece, Baseline) and case.ordered):
        return
    for group in FLAT:
        found = np.array([a[0] if len(a) else 0.0 for a in alone([case.piece], group)])[group.valid_G]
        order = np.argsort(group.rewards_G[group.valid_G], kind="stable")
        assert (np.diff(found[order]) >= -1e-12).all()


def a_lone_dissenter_keeps_the_largest_advantage(case: Case) -> None:
    """Leave-one-out filters once dropped such groups: three of four members see siblings that agree."""
    if not (isinstance(case.piece, Baseline) and case.dissent):
        return
    for rewards in [1, 0, 0, 0], [1, 1, 1, 0]:
        found = np.concatenate([a[:1] for a in alone([case.piece], plain(rewards))])
        assert abs(found).argmax() == (0 if sum(rewards) == 1 else 3)
        assert np.sign(found).tolist() == [1 if reward else -1 for reward in rewards]


def small_differences_are_signal(case: Case) -> None:
    """A difference of 1e-5, or of one ulp, has the order of the rewards; it is neither flattened nor blown up."""
    if not (isinstance(case.piece, Baseline) and case.ordered):
        return
    for rewards in [1.00000, 1.00001, 2.00000, 2.00001], [1.00000, 1.00001], [0.35] * 7 + [0.36], ULP:
        found = np.concatenate([a[:1] for a in alone([case.piece], plain(rewards))])
        assert np.isfinite(found).all()
        assert (np.diff(found)[np.diff(rewards) > 0] > 0).all()
        assert np.abs(found).max() < len(rewards)


ULP = [0.35, 0.35, float(np.nextafter(0.35, 1))]


def plain(rewards: Sequence[float]) -> Members:
    rewards_G = np.array(rewards, np.float64)
    return Members(rewards_G, rewards_G > 0.5, np.full(len(rewards), 3))


def lengths_decide_how_often_an_advantage_is_repeated_and_nothing_else(case: Case) -> None:
    if not isinstance(case.piece, Baseline) or case.lengths:
        return
    for group in FLAT:
        longer = replace(group, tokens_G=group.tokens_G * np.arange(1, group.size + 1))
        per_member = [a[0] if len(a) else 0.0 for a in alone([case.piece], group)]
        expected = [np.full(n, a) for n, a in zip(longer.tokens_G, per_member, strict=True)]
        assert_close(alone([case.piece], longer), expected, atol=0.0)


RULES = [
    its_example_is_as_it_was_worked_by_hand,
    one_number_per_trainable_token,
    it_is_pure,
    a_shaper_leaves_what_it_was_given_alone,
    a_permutation_of_the_members_permutes_the_advantages,
    a_permutation_of_the_groups_permutes_the_advantages,
    groups_do_not_know_each_other_unless_it_says_so,
    one_member_has_nothing_to_compare_with,
    equal_rewards_give_exactly_zero,
    a_member_that_is_not_valid_gets_zero_and_changes_no_sibling,
    nobody_is_no_obstacle,
    a_constant_added_to_all_rewards_changes_nothing_if_it_says_so,
    a_factor_on_all_rewards_follows_its_law,
    a_large_offset_leaves_no_residue_over_an_epsilon,
    a_better_member_never_gets_less,
    a_lone_dissenter_keeps_the_largest_advantage,
    small_differences_are_signal,
    lengths_decide_how_often_an_advantage_is_repeated_and_nothing_else,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_rules_that_every_piece_keeps(case: Case, rule: Callable[[Case], None]) -> None:
    rule(case)


def test_every_piece_is_in_the_matrix() -> None:
    seen = {type(case.piece) for case in CASES.values()}
    missing = [name for name, piece in PIECES.items() if piece not in seen]
    assert not missing, (
        f"{', '.join(missing)}: named in credit/__init__.py, but without a line in CASES of credit_cases.py; "
        "write one, with an example by hand and the laws that it keeps"
    )


def test_an_example_by_hand_is_required() -> None:
    with pytest.raises(TypeError, match="by_hand"):
        Case(GroupMean())  # type: ignore[call-arg]


@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES)
def test_every_option_is_set_in_an_example(piece: type[Link]) -> None:
    """To something else than its default, and every one of named values: or nobody would see that it does nothing."""
    examples = [case.piece for case in CASES.values() if type(case.piece) is piece]
    for name, field in piece.model_fields.items():
        given = [getattr(example, name) for example in examples]
        assert any(value != field.default for value in given), f"no example in credit_cases.py sets {name}"
        named = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
        assert set(named) <= set(given if named else ()), f"no example in credit_cases.py has every {name} of {named}"


def test_the_groups_hold_what_the_rules_are_about() -> None:
    assert {group.size for group in GROUPS} >= {1, 2, 9}
    assert any(np.isnan(group.rewards_G).any() for group in GROUPS)
    assert any((group.tokens_G == 0).any() for group in GROUPS)
    assert sum(len(set(group.rewards_G[group.valid_G])) > 1 for group in FLAT) > 6
    assert any((group.parents_G[group.parents_G[group.parents_G >= 0]] >= 0).any() for group in FORESTS)
    assert any(group.parents_G[0] >= 0 for group in FORESTS)
    assert any(group.seeded_G.any() and not group.seeded_G.all() for group in GROUPS)
