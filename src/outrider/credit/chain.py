"""Interfaces of the components that compute advantages. A credit chain is a list of components: reward shapers, then
one baseline, then shapers of advantages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from outrider.arrays import Floats
from outrider.credit.members import Members
from outrider.needs import NOTHING, Needs
from outrider.options import Options


class RewardShaper(Options):
    """Changes rewards before the baseline, for example with a length penalty or a format bonus.

    The baseline then treats the shaped reward like any other reward. The verifier's verdicts and the recorded rewards
    do not change. Exploration stages, which choose problems and rollouts, therefore never see shaped rewards.
    """

    @property
    def response_limit(self) -> int | None:
        """The response limit in tokens that the shaper assumes; the sampler must have the same limit. None if the
        shaper assumes no limit."""
        return None

    def rewards(self, members: Members, step: int) -> Floats:
        """Return the shaped reward of each member, float64 ``[G]``. Members that the verifier could not score keep
        their reward."""
        raise NotImplementedError


class Baseline(Options):
    """Maps the rewards of one group to advantages; rollouts that the verifier could not score get 0.

    Most baselines give all tokens of a rollout the same advantage. A baseline whose advantages vary within a rollout,
    for example between segments of a tree, overrides ``per_token`` instead of ``advantages``.
    """

    by_segment: ClassVar[bool] = False
    """Whether a token's advantage already accounts for all rollouts that share the token, as tree segment values do."""

    def advantages(self, members: Members) -> Floats:
        """Return one advantage per member, float64 ``[G]``."""
        raise NotImplementedError

    def per_token(self, members: Members) -> list[Floats]:
        """Return one float64 array per member, with one advantage per trainable token."""
        return repeated(self.advantages(members), members)

    @property
    def needs_step(self) -> bool:
        """Whether the baseline depends on the training step."""
        return False

    @property
    def goal(self) -> int | None:
        """The k for which this baseline gives an unbiased estimate of the gradient of pass@k; None if there is no such
        k. The estimate is the mean over rollouts of the advantage times the gradient of the log-probability.
        """
        return None

    def of_stream(self, groups: Sequence[Members], step: int = 1) -> list[list[Floats]]:
        """Return the result of ``per_token`` for every group. ``groups`` are all groups of one step. They contain only
        the rollouts of one loss stream (a separately weighted part of the loss). ``step`` is counted from 1."""
        return [self.per_token(members) for members in groups]


@runtime_checkable
class StageBaseline(Protocol):
    """A baseline that requires a particular component in the recipe's list ``explore``. For example, the baseline
    ``greedy`` requires the component ``greedy``, which samples a greedy response.

    Attributes:
        needs_stage: name of the required component.
    """

    needs_stage: ClassVar[str]


def stage_of(baseline: Baseline) -> str | None:
    """Return the name of the component that the baseline requires in the recipe's list ``explore``; None if the
    baseline has no such requirement."""
    return baseline.needs_stage if isinstance(baseline, StageBaseline) else None


class BatchBaseline(Baseline):
    """A baseline that uses statistics over all groups of a step, separately for each loss stream (a separately weighted
    part of the loss). A single group is treated as the whole batch."""

    def of_batch(self, groups: Sequence[Members]) -> list[Floats]:
        """Return one array per group, with one advantage per member."""
        raise NotImplementedError

    def advantages(self, members: Members) -> Floats:
        return self.of_batch([members])[0]

    def of_stream(self, groups: Sequence[Members], step: int = 1) -> list[list[Floats]]:
        return [repeated(a_G, members) for a_G, members in zip(self.of_batch(groups), groups, strict=True)]


class Shaper(Options):
    """Changes the advantages of one group, token by token. A shaper returns new arrays and does not modify its
    inputs."""

    requires: ClassVar[Needs] = NOTHING
    """Values that the shaper needs for every token: ``entropies`` at sampling, or ``texts``."""

    @property
    def needs_step(self) -> bool:
        """Whether the result of ``shape`` depends on the training step."""
        return False

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        raise NotImplementedError


Link = RewardShaper | Baseline | Shaper


class Links(NamedTuple):
    """A recipe's advantage components: reward shapers, the baseline, and shapers of advantages."""

    before: list[RewardShaper]
    baseline: Baseline
    after: list[Shaper]


def split(chain: Sequence[Link]) -> Links:
    """Split a list of components into reward shapers, the baseline, and shapers of advantages.

    Raises:
        ValueError: the chain has no baseline or more than one, or its components are in the wrong order.
    """
    before = [link for link in chain if isinstance(link, RewardShaper)]
    baselines = [link for link in chain if isinstance(link, Baseline)]
    after = [link for link in chain if isinstance(link, Shaper)]
    if len(baselines) != 1:
        raise ValueError(f"a credit chain must have exactly one baseline, but this one has {len(baselines)}")
    for link, expected in zip(chain, [*before, *baselines, *after], strict=True):
        if link is not expected:
            raise ValueError(
                f"{type(link).__name__} comes too early in its credit chain: the order is reward shapers, "
                "baseline, shapers of the advantage"
            )
    return Links(before, baselines[0], after)


def advantages_of(chain: Sequence[Link], groups: Sequence[Members], step: int | None = None) -> list[list[Floats]]:
    """Compute the advantages of all groups of a training step by running the components of ``chain`` in order.

    Returns one float64 array for each member of each group, with one advantage per trainable token. Reward shapers
    change the rewards one after another, and the baseline maps the rewards to advantages. Each shaper then changes the
    advantages that the previous shaper returned, so the order of the shapers matters. ``step`` counts training steps
    from 1, and may be omitted if no component depends on the step.

    Raises:
        ValueError: the chain is invalid (see :func:`split`), or ``step`` is missing although a component needs it.
    """
    before, baseline, after = split(chain)
    if step is None:
        if baseline.needs_step or any(link.needs_step for link in after):
            raise ValueError("a component of this chain depends on the training step: pass step")
        step = 1
    for link in before:
        groups = [replace(members, rewards_G=link.rewards(members, step)) for members in groups]
    result = baseline.of_stream(groups, step)
    for shaper in after:
        result = [shaper.shape(a_GT, members, step) for a_GT, members in zip(result, groups, strict=True)]
    return result


def advantages(chain: Sequence[Link], members: Members, step: int | None = None) -> list[Floats]:
    """Compute the advantages of one group by running the components of ``chain`` in order. A baseline with batch
    statistics treats the group as the whole batch.

    >>> from outrider.credit.group_mean import GroupMean
    >>> m = Members(np.array([1.0, 0.0]), np.array([True, False]), np.array([2, 3]))
    >>> [a.tolist() for a in advantages([GroupMean(std=False)], m)]
    [[0.5, 0.5], [-0.5, -0.5, -0.5]]
    """
    return advantages_of(chain, [members], step)[0]


def repeated(advantages_G: Floats, members: Members) -> list[Floats]:
    """Return one array per member, with the member's advantage for each of its trainable tokens."""
    return [np.full(int(t), a) for a, t in zip(advantages_G, members.tokens_G, strict=True)]
