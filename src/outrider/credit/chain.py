"""The contract of credit, and how its components chain: reward shapers, one baseline, shapers."""

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
    """Changes the rewards that the baseline will compare: a penalty for length, a bonus for format.

    It comes before the baseline, so that what it adds is centred and scaled like the reward itself. Verdicts, and what
    is recorded as a rollout's reward, stay as they are: stages and filters never see a shaped reward.
    """

    @property
    def response_limit(self) -> int | None:
        """The limit on responses that it goes by, which has to be the sampler's; None: none."""
        return None

    def rewards(self, members: Members, step: int) -> Floats:
        """The new rewards, float64 ``[G]``; a member that is not valid keeps its own."""
        raise NotImplementedError


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
        return repeated(self.advantages(members), members)

    @property
    def needs_step(self) -> bool:
        """Whether it is another one in other steps of training."""
        return False

    @property
    def goal(self) -> int | None:
        """The k of the pass@k whose gradient the mean over rollouts estimates without bias, where it says so."""
        return None

    def of_stream(self, groups: Sequence[Members], step: int = 1) -> list[list[Floats]]:
        """``per_token`` of all groups that a step has in one loss stream; steps are counted from 1."""
        return [self.per_token(members) for members in groups]


@runtime_checkable
class StageBaseline(Protocol):
    """A baseline that compares with the rollouts of one stage.

    Attributes:
        needs_stage: the stage's name.
    """

    needs_stage: ClassVar[str]


def stage_of(baseline: Baseline) -> str | None:
    """The stage without whose rollouts a baseline has nothing to compare with; None for most."""
    return baseline.needs_stage if isinstance(baseline, StageBaseline) else None


class BatchBaseline(Baseline):
    """A baseline whose statistics run over all groups of a stream. A group that comes alone is the whole batch."""

    def of_batch(self, groups: Sequence[Members]) -> list[Floats]:
        """One array per group, one advantage per member."""
        raise NotImplementedError

    def advantages(self, members: Members) -> Floats:
        return self.of_batch([members])[0]

    def of_stream(self, groups: Sequence[Members], step: int = 1) -> list[list[Floats]]:
        return [repeated(a_G, members) for a_G, members in zip(self.of_batch(groups), groups, strict=True)]


class Shaper(Options):
    """Changes the advantages of one group, per trainable token. Pure: reads the group, returns new arrays."""

    requires: ClassVar[Needs] = NOTHING
    """``entropies`` of every token as it was drawn, or ``texts`` of every token."""

    @property
    def needs_step(self) -> bool:
        """Whether it acts in some steps of training only."""
        return False

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        raise NotImplementedError


Link = RewardShaper | Baseline | Shaper


class Links(NamedTuple):
    """A chain in its three parts."""

    before: list[RewardShaper]
    baseline: Baseline
    after: list[Shaper]


def split(chain: Sequence[Link]) -> Links:
    """The parts of a chain, which has exactly one baseline.

    Raises:
        ValueError: no baseline, a second one, or a shaper on the wrong side of it.
    """
    before = [link for link in chain if isinstance(link, RewardShaper)]
    baselines = [link for link in chain if isinstance(link, Baseline)]
    after = [link for link in chain if isinstance(link, Shaper)]
    if len(baselines) != 1:
        raise ValueError(f"a credit chain has one baseline, and this one has {len(baselines)}")
    for link, expected in zip(chain, [*before, *baselines, *after], strict=True):
        if link is not expected:
            raise ValueError(
                f"{type(link).__name__} stands too early in its credit chain: first come shapers of the reward, "
                "then the baseline, then shapers of the advantage"
            )
    return Links(before, baselines[0], after)


def advantages_of(chain: Sequence[Link], groups: Sequence[Members], step: int | None = None) -> list[list[Floats]]:
    """Run a credit chain over all groups that a step has in one loss stream.

    For each group one float64 array per member, one number per trainable token. Reward shapers change the rewards one
    after the other; the baseline makes advantages of them; every shaper sees the result of the one before, so the
    order matters. ``step`` counts the steps of training from 1; it may be omitted if no component acts in a window.

    Raises:
        ValueError: see :func:`split`; or no step is given and a component needs it.
    """
    before, baseline, after = split(chain)
    if step is None:
        if baseline.needs_step or any(link.needs_step for link in after):
            raise ValueError("a component of this chain acts in a window of steps: give step as well")
        step = 1
    for link in before:
        groups = [replace(members, rewards_G=link.rewards(members, step)) for members in groups]
    result = baseline.of_stream(groups, step)
    for shaper in after:
        result = [shaper.shape(a_GT, members, step) for a_GT, members in zip(result, groups, strict=True)]
    return result


def advantages(chain: Sequence[Link], members: Members, step: int | None = None) -> list[Floats]:
    """:func:`advantages_of` for one group; a batch baseline then takes that group as its whole batch.

    >>> from outrider.credit.group_mean import GroupMean
    >>> m = Members(np.array([1.0, 0.0]), np.array([True, False]), np.array([2, 3]))
    >>> [a.tolist() for a in advantages([GroupMean(std=False)], m)]
    [[0.5, 0.5], [-0.5, -0.5, -0.5]]
    """
    return advantages_of(chain, [members], step)[0]


def repeated(advantages_G: Floats, members: Members) -> list[Floats]:
    """One number per member as one number per token."""
    return [np.full(int(t), a) for a, t in zip(advantages_G, members.tokens_G, strict=True)]
