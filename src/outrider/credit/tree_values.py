"""Credit from the values of tree segments: TreeRL and AttnRL."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from outrider.arrays import Flags, Floats
from outrider.credit.chain import Baseline
from outrider.credit.forest import Forest
from outrider.credit.members import Members

_NEAR_ZERO = 1e-8


class TreeValues(Baseline):
    r"""The advantage is the sum of two differences: a segment's value minus the prompt's value, and the segment's value
    minus the preceding segment's value.

    Let :math:`L(s)` be the valid members that contain segment :math:`s`, :math:`V(s)` their mean reward, :math:`V_0`
    the mean reward of all valid members (the prompt's value), and :math:`p(s)` the preceding segment (the prompt, for
    the first segment of a path). Every token of segment :math:`s` gets

    * ``treerl_paper``: :math:`A(s) = \big(V(s) - V_0 + V(s) - V(p(s))\big) \,/ \sqrt{|L(s)|}`
    * ``treerl_code``: :math:`A(s) = W(s) + D(s)` with :math:`W(s) = \frac{n}{n-1} (V(s) - V_0) / \sqrt{|L(s)|}` and
      :math:`D(s) = W(s) - W(p(s))`. If :math:`|D(s)|` is below 1e-8 and there is a preceding segment, :math:`D(s)` is
      the preceding segment's :math:`D`, recursively.

    TreeRL's code uses leave-one-out means, which give :math:`n/(n-1)` times the difference to the mean of all
    :math:`n`, and scales before it takes the difference :math:`D`. AttnRL uses the formula of ``treerl_paper`` and does
    not divide by a standard deviation.

    A segment's advantage accounts for all rollouts that contain the segment. Therefore a token that rollouts share
    needs to be trained only once (``objective.prefix: mask``; with this baseline, ``count_once`` is equivalent). The
    released implementations train a shared token once for each rollout that contains it (``objective.prefix: repeat``).

    Degenerate cases: if there are fewer than two valid members (rollouts that the verifier could score), or all rewards
    are exactly equal, all members get 0. An invalid member does not count in :math:`L(s)` or :math:`V(s)`, and the
    position where it branches off has no effect. Tokens that an invalid member shares with valid members get their
    segment's advantage, and the other tokens of the invalid member get 0. Without branches, ``treerl_paper`` gives
    twice the difference between a reward and the mean reward.

    Sources: TreeRL, arXiv 2506.11902, and its released code; AttnRL, arXiv 2509.26628. Deviation from TreeRL's code:
    that code trains on 16 of 30 rollouts, and counts only these in :math:`|L(s)|`. This baseline uses all rollouts.

    >>> root_and_branch = Members(
    ...     np.array([1.0, 0, 0]), np.array([True, False, False]), np.array([4, 2, 2]),
    ...     parents_G=np.array([-1, 0, -1]), starts_G=np.array([0, 2, 0]),
    ... )
    >>> [a.round(3).tolist() for a in TreeValues().per_token(root_and_branch)]
    [[0.236, 0.236, 1.167, 1.167], [-0.833, -0.833], [-0.667, -0.667]]
    """

    by_segment: ClassVar[bool] = True

    variant: Literal["treerl_paper", "treerl_code"] = Field(
        "treerl_paper",
        description=(
            "formula for the advantage of a segment: as in the papers TreeRL and AttnRL (treerl_paper), or as in "
            "TreeRL's released code (treerl_code)"
        ),
    )

    def advantages(self, members: Members) -> Floats:
        """Return the advantage of the segment in which each member ends."""
        forest = Forest.of(members)
        values_S = self._values(members, forest)
        ended_G = members.valid_G
        result_G = np.zeros(members.size)
        result_G[ended_G] = values_S[forest.leaves_G[ended_G]]
        return result_G

    def per_token(self, members: Members) -> list[Floats]:
        forest = Forest.of(members)
        return forest.per_token(self._values(members, forest))

    def _values(self, members: Members, forest: Forest) -> Floats:
        valid_G = members.valid_G
        rewards = members.rewards_G[valid_G]
        if len(rewards) < 2 or (rewards == rewards[0]).all():
            return np.zeros(forest.size)
        centred = rewards - rewards.mean()
        centred -= centred.mean()  # second pass: removes the rounding error of the mean
        gains_G = np.zeros(members.size)
        gains_G[valid_G] = centred
        leaves_S = forest.below(valid_G)
        counts_S = np.maximum(leaves_S, 1.0)
        values_S = forest.below(gains_G) / counts_S  # V(s) - V_0, so the prompt has 0
        if self.variant == "treerl_code":
            values_S *= len(rewards) / (len(rewards) - 1) / np.sqrt(counts_S)
        steps_S = values_S - forest.above(values_S, prompt=0.0)
        same_S = leaves_S == forest.above(
            leaves_S, prompt=-1.0
        )  # no valid member branches off: same leaves as the parent segment
        if self.variant == "treerl_code":
            same_S |= (np.abs(steps_S) < _NEAR_ZERO) & (forest.parents_S >= 0)
        advantages_S = values_S + _continued(steps_S, same_S, forest)
        if self.variant == "treerl_paper":
            advantages_S /= np.sqrt(counts_S)
        return np.where(leaves_S > 0, advantages_S, 0.0)


def _continued(steps_S: Floats, same_S: Flags, forest: Forest) -> Floats:
    """Return a copy of ``steps_S`` in which each segment marked in ``same_S`` has the entry of its parent segment."""
    steps = steps_S.tolist()
    for segment in np.flatnonzero(same_S).tolist():  # parents come first, so copies propagate
        steps[segment] = steps[int(forest.parents_S[segment])]
    return np.array(steps, np.float64)
