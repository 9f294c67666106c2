"""Groups for the rules of credit: small ones to work by hand, and ones that are drawn once, from seeds.

Those drawn are flat or forests, ragged, with members that are unscorable or have no tokens.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from outrider.credit import Members
from outrider.credit.explain import GroupShape, worked_group


def worked(shape: GroupShape, rewards: Sequence[float], **columns: Any) -> Members:
    """A group of ``explain.worked_group`` with these rewards. A member's first token has all of its log-probability."""
    members = worked_group(shape).members
    logprobs_GT = [np.where(np.arange(len(lp)) == 0, lp[0] * len(lp), 0.0) for lp in members.logprobs_GT]
    return frozen(replace(members, rewards_G=np.array(rewards, np.float64), logprobs_GT=logprobs_GT, **columns))


def frozen(members: Members) -> Members:
    """Read-only: a piece that writes into its group fails by itself, and changes no test that comes after it."""
    for column in (getattr(members, field.name) for field in fields(Members)):
        for array in [column] if isinstance(column, np.ndarray) else column:
            array.setflags(write=False)
    return members


ROOTS = worked(
    "roots",
    [4, 4, 1, 1, 7, 1, np.nan],
    starts_G=np.array([0, 0, 3, 0, 0, 0, 0]),
    families_G=np.array([0, 0, 1, 0, 0, 0, 0]),
    seeded_G=np.array([False, True, False, False, True, False, False]),
)
# the first, the third and the last member are greedy
GREEDY = worked("greedy", [4, 4, 1, 1, 7, 1, np.nan, 1], greedy_G=np.isin(np.arange(8), [0, 2, 7]))
# the mean is 3. The fourth continues the first after 3 of its 6 tokens; the last two, of 4 tokens each, continue the
# second after 2 of its 6; the third, of 5 tokens, is alone
TREE = worked("tree", [4, 1, 7, 1, 4, 1])
# three continue one rollout, two another
SIBLINGS = worked("siblings", [4, 1, 1, 7, 1])
# of one token each, one right and one wrong: less their mean, 1.5 and -1.5
PAIR = frozen(
    Members(
        np.array([4.0, 1.0]),
        np.array([True, False]),
        np.array([1, 1]),
        logprobs_GT=[np.array([-0.9]), np.array([-0.3])],
        entropies_GT=[np.array([1.4]), np.array([1.4])],
    )
)


# Drawn


def drawn(seed: int, forest: bool) -> Members:
    """A group of 1 to 9 members. Rewards are multiples of 1/64 or, in every other group, 0 and 1."""
    rng = np.random.default_rng([seed, forest])
    size = int(rng.integers(1, 10))
    tokens_G = rng.integers(1, 7, size)
    tokens_G[rng.random(size) < 0.1] = 0
    rewards_G = rng.integers(0, 2, size).astype(float) if rng.random() < 0.5 else rng.integers(-128, 129, size) / 64
    success_G = rewards_G > 0.5
    unscorable_G = rng.random(size) < 0.1
    rewards_G[unscorable_G], success_G[unscorable_G] = np.nan, False
    parents_G, starts_G = np.full(size, -1), np.zeros(size, np.int64)
    for i in range(1, size):
        parent = int(rng.integers(-1, i)) if forest else -1
        if parent >= 0:
            parents_G[i] = parent
            starts_G[i] = rng.integers(0, starts_G[parent] + tokens_G[parent] + 1)
    places = list(zip(parents_G.tolist(), starts_G.tolist(), strict=True))
    group = Members(
        rewards_G,
        success_G,
        tokens_G,
        logprobs_GT=[-rng.exponential(0.5, n) for n in tokens_G],
        entropies_GT=[rng.exponential(0.5, n) for n in tokens_G],
        pieces_GT=[rng.choice(["\\boxed{", "}", "x", " 7}"], n) for n in tokens_G],
        parents_G=parents_G,
        starts_G=starts_G,
        families_G=np.array([places.index(place) for place in places]),
        seeded_G=rng.random(size) < 0.3,
        greedy_G=rng.random(size) < 0.2,
    )
    return frozen(picked(group, rng.permutation(size)))  # a branch may come before its parent


def picked(members: Members, chosen: Sequence[int] | np.ndarray) -> Members:
    """Some members in some order; who continues one that is left out has a parent that is not there.

    Fields are taken as they come, so that a new one of ``Members`` is not forgotten.
    """
    place = {int(old): new for new, old in enumerate(chosen)}
    new: dict[str, Any] = {}
    for field in fields(Members):
        value = getattr(members, field.name)
        new[field.name] = value[chosen] if isinstance(value, np.ndarray) else [value[i] for i in chosen]
    new["parents_G"] = np.array([place.get(int(p), -1) for p in new["parents_G"]], np.int64)
    return Members(**new)


def with_rewards(members: Members, change: Callable[[np.ndarray], np.ndarray]) -> Members:
    return replace(members, rewards_G=change(members.rewards_G))


def parts(members: Members) -> list[list[float]]:
    """Everything that a group says, to compare it before and after."""
    columns = (getattr(members, field.name) for field in fields(Members))
    flat = (column if isinstance(column, np.ndarray) else itertools.chain([np.zeros(0)], column) for column in columns)
    return [np.concatenate([np.atleast_1d(part) for part in column]).tolist() for column in flat]


FLAT = [drawn(seed, forest=False) for seed in range(9)]
FORESTS = [drawn(seed, forest=True) for seed in range(9)]
GROUPS = FLAT + FORESTS
STREAMS = [FLAT[i : i + 3] + FORESTS[i : i + 2] for i in range(0, 9, 3)]
EMPTY = picked(FLAT[0], np.zeros(0, np.int64))
