"""The contract of credit, and how its pieces chain: a baseline, then shapers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from outrider.credit.members import Floats, Members
from outrider.options import Options


class Baseline(Options):
    """Rewards of one group to advantages: 0 for members that are not valid.

    Most give one number per member, which counts for all of its tokens. A baseline that tells the tokens of one member
    apart (the segments of a tree) overrides ``per_token`` instead.
    """

    by_segment: ClassVar[bool] = False
    """Whether a token's advantage accounts for all rollouts that go through it: the values of a tree's segments."""

    def advantages(self, members: Members) -> Floats:
        """One advantage per member, float64 ``[G]``."""
        raise NotImplementedError

    def per_token(self, members: Members) -> list[Floats]:
        """One float64 array per member, one number per trainable token."""
        return [np.full(int(t), a) for a, t in zip(self.advantages(members), members.tokens_G, strict=True)]


class Shaper(Options):
    """Changes the advantages of one group, per trainable token. Pure: reads the group, returns new arrays."""

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        raise NotImplementedError


def advantages(chain: Sequence[Baseline | Shaper], members: Members, step: int = 0) -> list[Floats]:
    """Run a credit chain over one group: one float64 array per member, one number per trainable token.

    The first link is the baseline. Every later link is a shaper and sees the result of the one before, so the order
    matters.

    Raises:
        ValueError: the chain does not start with a baseline, or has a second one.

    >>> from outrider.credit.group_mean import GroupMean
    >>> m = Members(np.array([1.0, 0.0]), np.array([True, False]), np.array([2, 3]))
    >>> [a.tolist() for a in advantages([GroupMean(std=False)], m)]
    [[0.5, 0.5], [-0.5, -0.5, -0.5]]
    """
    first, *rest = chain
    if not isinstance(first, Baseline):
        raise ValueError(f"a credit chain starts with a baseline, not with {type(first).__name__}")
    result = first.per_token(members)
    for link in rest:
        if not isinstance(link, Shaper):
            raise ValueError(f"{type(link).__name__} is a second baseline; a credit chain has one")
        result = link.shape(result, members, step)
    return result
