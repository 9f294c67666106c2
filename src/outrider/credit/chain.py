"""The contract of credit, and how its pieces chain: a baseline, then shapers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from outrider.credit.members import Floats, Members
from outrider.options import Options


class Baseline(Options):
    """Rewards of one group to one advantage per member: float64 ``[G]``, 0 for members that are not valid."""

    def advantages(self, members: Members) -> Floats:
        raise NotImplementedError


class Shaper(Options):
    """Changes the advantages of one group, per trainable token. Pure: reads the group, returns new arrays."""

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        raise NotImplementedError


def advantages(chain: Sequence[Baseline | Shaper], members: Members, step: int = 0) -> list[Floats]:
    """Run a credit chain over one group: one float64 array per member, one number per trainable token.

    The first link is the baseline; its value per member is repeated over the member's tokens. Every later link is a
    shaper and sees the result of the one before, so the order matters.

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
    per_member_G = first.advantages(members)
    result = [np.full(int(t), a) for a, t in zip(per_member_G, members.tokens_G, strict=True)]
    for link in rest:
        if not isinstance(link, Shaper):
            raise ValueError(f"{type(link).__name__} is a second baseline; a credit chain has one")
        result = link.shape(result, members, step)
    return result
