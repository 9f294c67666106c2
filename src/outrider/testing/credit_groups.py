"""Random groups with fixed seeds, on which baselines and shapers are tested.

Some groups have branches, and responses differ in length. Some rollouts have no verdict or no tokens.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from outrider.arrays import Ints
from outrider.credit import Members

_TEXTS = ["\\boxed{", "}", "x", " 7}"]


def frozen(members: Members) -> Members:
    """Return the group with read-only arrays, so that a component fails at once if it writes to the group."""
    for column in (getattr(members, field.name) for field in fields(Members)):
        for array in [column] if isinstance(column, np.ndarray) else column:
            array.setflags(write=False)
    return members


def drawn(seed: int, forest: bool) -> Members:
    """Return a random group of 1 to 9 rollouts.

    Rewards are 0 and 1 in half of the groups, and multiples of 1/64 in the other half.
    """
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
        token_texts_GT=[rng.choice(_TEXTS, n) for n in tokens_G],
        parents_G=parents_G,
        starts_G=starts_G,
        families_G=np.array([places.index(place) for place in places]),
        seeded_G=rng.random(size) < 0.3,
        greedy_G=rng.random(size) < 0.2,
    )
    return frozen(picked(group, rng.permutation(size)))  # after the shuffle, a branch may come before its parent


def picked(members: Members, chosen: Sequence[int] | Ints) -> Members:
    """Return the chosen rollouts in the given order. If a parent is not chosen, its branches have no parent in the new
    group."""
    place = {int(old): new for new, old in enumerate(chosen)}
    new: dict[str, Any] = {}
    for field in fields(Members):
        value = getattr(members, field.name)
        new[field.name] = value[chosen] if isinstance(value, np.ndarray) else [value[i] for i in chosen]
    new["parents_G"] = np.array([place.get(int(p), -1) for p in new["parents_G"]], np.int64)
    return Members(**new)


def unscorable(members: Members, i: int) -> Members:
    """Return the same group, except that the verifier failed for rollout ``i``."""
    rewards_G, success_G = members.rewards_G.copy(), members.success_G.copy()
    rewards_G[i], success_G[i] = np.nan, False
    return replace(members, rewards_G=rewards_G, success_G=success_G)


def without_tokens(members: Members, i: int, reward: float) -> Members:
    """Return the same group, except that rollout ``i`` has the given reward and no trainable token."""
    at = np.arange(members.size) == i
    per_token: dict[str, Any] = {
        name: [np.zeros(0) if j == i else values for j, values in enumerate(getattr(members, name))]
        for name in (field.name for field in fields(Members))
        if name.endswith("_GT")
    }
    rewards_G, success_G = np.where(at, reward, members.rewards_G), np.where(at, reward > 0, members.success_G)
    tokens_G: Any = np.where(at, 0, members.tokens_G)
    return replace(members, rewards_G=rewards_G, success_G=success_G, tokens_G=tokens_G, **per_token)


def plain(rewards: Sequence[float]) -> Members:
    """Return a group without branches, in which every rollout has three tokens."""
    rewards_G = np.array(rewards, np.float64)
    return Members(rewards_G, rewards_G > 0.5, np.full(len(rewards), 3))


def parts(members: Members) -> list[list[float]]:
    """Return all values of a group, so that the group can be compared before and after a call."""
    columns = (getattr(members, field.name) for field in fields(Members))
    flat = (column if isinstance(column, np.ndarray) else itertools.chain([np.zeros(0)], column) for column in columns)
    return [np.concatenate([np.atleast_1d(part) for part in column]).tolist() for column in flat]


def described(members: Members) -> str:
    """Describe a group for a message, by its rewards and its numbers of tokens.

    >>> described(plain([1.0, 0.0]))
    'a group with rewards 1, 0 and 3, 3 tokens'
    >>> described(EMPTY)
    'an empty group'
    """
    if not members.size:
        return "an empty group"
    rewards = ", ".join(f"{reward:g}" for reward in members.rewards_G)
    forest = ", a forest" if (members.parents_G >= 0).any() else ""
    return f"a group with rewards {rewards} and {', '.join(map(str, members.tokens_G.tolist()))} tokens{forest}"


FLAT = [drawn(seed, forest=False) for seed in range(9)]
FORESTS = [drawn(seed, forest=True) for seed in range(9)]
GROUPS = FLAT + FORESTS
STREAMS = [FLAT[i : i + 3] + FORESTS[i : i + 2] for i in range(0, 9, 3)]
EMPTY = picked(FLAT[0], np.zeros(0, np.int64))
ULP = [0.35, 0.35, float(np.nextafter(0.35, 1))]
