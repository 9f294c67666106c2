"""Random forests of rollouts for tests, and who goes through which token, found the slow way."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from outrider.credit import Members
from outrider.record import Rollout

Token = tuple[int, int]  # the member that sampled it, and its place among that member's own tokens


class Drawn(NamedTuple):
    """Members, and for each of them its path as tokens. A missing ancestor's tokens have an owner of their own."""

    members: Members
    paths: list[list[Token]]

    def through(self, token: Token) -> set[int]:
        """The members whose path goes through a token."""
        return {i for i, path in enumerate(self.paths) if token in path}


@st.composite
def forests(draw: st.DrawFn, largest: int = 7, shortest: int = 0) -> Drawn:
    """Ragged, of any depth, in any order; some members have no tokens, no reward, or a parent that is not there."""
    size = draw(st.integers(1, largest))
    parents, starts, tokens = [-1], [0], [draw(st.integers(shortest, 5))]
    for i in range(1, size):
        parent = draw(st.integers(-1, i - 1))
        end = starts[parent] + tokens[parent] if parent >= 0 else 0
        parents.append(parent)
        starts.append(draw(st.integers(0, end)))
        tokens.append(draw(st.integers(shortest, 5)))
    kept = [i for i in range(size) if draw(st.integers(0, 9)) > 0] or [0]
    order = draw(st.permutations(kept))
    place = {old: new for new, old in enumerate(order)}
    rewards = draw(st.lists(st.sampled_from([0.0, 1.0, 1.0, 0.25, np.nan]), min_size=len(order), max_size=len(order)))
    members = Members(
        rewards_G=np.array(rewards),
        success_G=np.array(rewards) == 1.0,
        tokens_G=np.array([tokens[i] for i in order]),
        parents_G=np.array([place.get(parents[i], -1) for i in order]),
        starts_G=np.array([starts[i] for i in order]),
    )
    return Drawn(members, paths(members))


def paths(members: Members) -> list[list[Token]]:
    """Each member's path, token by token, straight from the definition."""

    def path(i: int) -> list[Token]:
        parent, start = int(members.parents_G[i]), int(members.starts_G[i])
        before = path(parent)[:start] if parent >= 0 else [(-1 - i, k) for k in range(start)]
        return before + [(i, k) for k in range(int(members.tokens_G[i]))]

    return [path(i) for i in range(members.size)]


def rollout(member: int, own: list[bool], parent: Rollout | None = None, at: int = 0, **rest: object) -> Rollout:
    """``own``: one flag per own token, whether it was sampled."""
    n = len(own)
    prefix = np.zeros(0, np.int32) if parent is None else parent.response_ids[:at]
    return Rollout(
        problem_id="p",
        group_id="g",
        member=member,
        prompt_ids=np.array([1], np.int32),
        token_ids=np.arange(n, dtype=np.int32) + 10 * member,
        logprobs_T=np.where(own, -np.arange(n, dtype=np.float32), np.nan).astype(np.float32),
        prefix_ids=prefix,
        trainable_T=None if all(own) else np.array(own),
        parent=None if parent is None else parent.id,
        **rest,
    )


@st.composite
def rollouts(draw: st.DrawFn) -> list[Rollout]:
    """A group in which some tokens were observed."""
    flags = st.lists(st.sampled_from([True, True, False]), max_size=5)
    drawn = [rollout(0, draw(flags))]
    for member in range(1, draw(st.integers(1, 6))):
        parent = draw(st.sampled_from([None, *drawn]))
        at = 0 if parent is None else draw(st.integers(0, len(parent.response_ids)))
        drawn.append(rollout(member, draw(flags), parent, at))
    return drawn
