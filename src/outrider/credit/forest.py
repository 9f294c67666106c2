"""Divides the rollouts of a group, which may share prefixes, into a forest of segments. Rollouts share a segment either
completely or not at all."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from outrider.arrays import Floats, Ints
from outrider.credit.members import Members


@dataclass(frozen=True, slots=True)
class Forest:
    """The ``S`` segments of a group: the trainable tokens that each member (rollout) sampled, split where other members
    branch off.

    A rollout is a path from the prompt to its end; all tokens of a segment are shared by exactly the same rollouts. The
    prompt is not a segment: segments that start at the prompt have parent -1. Each member has a leaf: the segment in
    which the member ends, even if other members continue this segment.

    A branch is attached to the member that sampled the last token of the branch's prefix. This member is the parent or,
    if the branch starts within the parent's own prefix, an earlier ancestor. A branch at position 0 is attached to the
    prompt. A member whose parent is not among the members is attached to the prompt. Branches that start inside such a
    member's prefix are also attached to the prompt. A member without tokens has no segment: its leaf is the segment to
    which it is attached.

    Attributes:
        owners_S: the member that sampled the segment's tokens.
        begins_S, ends_S: the segment as a half-open slice of its owner's trainable tokens; never empty.
        parents_S: the preceding segment, always with a smaller index; -1 for the prompt.
        leaves_G: the segment in which each member ends; -1 if its path has no segment.

    >>> root_and_branch = Members(
    ...     np.array([1.0, 0.0]), np.array([True, False]), np.array([5, 2]),
    ...     parents_G=np.array([-1, 0]), starts_G=np.array([0, 3]),
    ... )
    >>> forest = Forest.of(root_and_branch)
    >>> [column.tolist() for column in (forest.owners_S, forest.begins_S, forest.ends_S, forest.parents_S)]
    [[0, 0, 1], [0, 3, 0], [3, 5, 2], [-1, 0, 0]]
    >>> forest.below(root_and_branch.rewards_G).tolist()
    [1.0, 1.0, 0.0]
    """

    owners_S: Ints
    begins_S: Ints
    ends_S: Ints
    parents_S: Ints
    leaves_G: Ints

    @property
    def size(self) -> int:
        return len(self.owners_S)

    @staticmethod
    def of(members: Members) -> Forest:
        """Build the forest of a group, in time proportional to (members + segments) times the branching depth.

        Raises:
            ValueError: a member is its own ancestor, or a branch starts after its parent's end.
        """
        starts, tokens = members.starts_G.tolist(), members.tokens_G.tolist()
        order = _parents_first(members.parents_G)
        owners = _owners(order, members.parents_G.tolist(), starts, tokens)
        cuts: list[set[int]] = [{0, own} for own in tokens]
        for member, owner in enumerate(owners):
            if owner >= 0:
                cuts[owner].add(starts[member] - starts[owner])
        rows: list[tuple[int, int, int, int]] = []
        ending_at: dict[tuple[int, int], int] = {}
        leaves = [-1] * len(owners)
        for member in order:
            owner = owners[member]
            segment = ending_at[owner, starts[member] - starts[owner]] if owner >= 0 else -1
            bounds = sorted(cuts[member])
            for begin, end in itertools.pairwise(bounds):
                rows.append((member, begin, end, segment))
                segment = ending_at[member, end] = len(rows) - 1
            leaves[member] = segment
        owners_S, begins_S, ends_S, parents_S = np.array(rows, np.int64).reshape(-1, 4).T
        return Forest(owners_S, begins_S, ends_S, parents_S, np.array(leaves, np.int64))

    def below(self, values_G: NDArray[np.generic]) -> Floats:
        """For each segment, sum ``values_G`` over the members that end in the segment or in a descendant of it: float64
        ``[S]``."""
        reached = self.leaves_G >= 0
        sums = np.bincount(self.leaves_G[reached], values_G[reached], minlength=self.size).tolist()
        for segment, parent in zip(range(self.size - 1, -1, -1), self.parents_S[::-1].tolist(), strict=True):
            if parent >= 0:
                sums[parent] += sums[segment]
        return np.array(sums, np.float64)

    def above(self, values_S: Floats, prompt: float) -> Floats:
        """Return the value of each segment's parent, or ``prompt`` if the segment starts at the prompt: float64
        ``[S]``."""
        return np.where(self.parents_S >= 0, values_S[self.parents_S], prompt)

    def per_token(self, values_S: Floats) -> list[Floats]:
        """Copy each segment's value to all tokens of the segment. Return one array per member, for the trainable tokens
        that the member itself sampled.
        """
        lengths = np.zeros(len(self.leaves_G), np.int64)
        np.maximum.at(lengths, self.owners_S, self.ends_S)
        tokens_GT = [np.empty(int(length)) for length in lengths]
        slices = zip(self.owners_S.tolist(), self.begins_S.tolist(), self.ends_S.tolist(), values_S, strict=True)
        for owner, begin, end, value in slices:
            tokens_GT[owner][begin:end] = value
        return tokens_GT


def trees(parents_G: Ints) -> Ints:
    """Return the root of each member's tree. A member whose parent is not among the members is a root.

    Raises:
        ValueError: a member is its own ancestor.

    >>> trees(np.array([-1, 0, 1, -1])).tolist()
    [0, 0, 0, 3]
    """
    tree = list(range(len(parents_G)))
    for member in _parents_first(parents_G):
        if (parent := int(parents_G[member])) >= 0:
            tree[member] = tree[parent]
    return np.array(tree, np.int64)


def _parents_first(parents_G: Ints) -> list[int]:
    """Return the members in topological order, parents first."""
    depths = np.zeros(len(parents_G), np.int64)
    above = parents_G
    while (below := above >= 0).any():
        depths += below
        if depths.max() > len(parents_G):
            raise ValueError("members of a group are their own ancestors")
        above = np.where(below, parents_G[above], -1)
    return [int(member) for member in np.argsort(depths, kind="stable")]


def _owners(order: Sequence[int], parents: Sequence[int], starts: Sequence[int], tokens: Sequence[int]) -> list[int]:
    """For each member, return the member that owns the last token of its prefix; -1 if the prefix is only the
    prompt."""
    owners = [-1] * len(parents)
    for member in order:
        owner = parents[member]
        if owner >= 0 and starts[member] > (end := starts[owner] + tokens[owner]):
            raise ValueError(f"a branch starts at token {starts[member]}, but its parent's path has only {end}")
        while owner >= 0 and starts[owner] >= starts[member]:
            owner = owners[owner]
        owners[member] = owner
    return owners
