"""Interface of a selector, which picks the cuts (positions in rollouts) to branch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

from outrider.explore.segment import SegmentedRollout
from outrider.explore.view import Engine
from outrider.needs import NOTHING, Needs
from outrider.options import Options
from outrider.record import Rollout


class Pivot(NamedTuple):
    """A branch point after ``rollout.response_ids[:at]``. If ``at`` is 0, branches start at the end of the prompt and
    have no parent.
    """

    rollout: Rollout
    at: int


class PivotOutcome(NamedTuple):
    """The outcome of the branches of one branch point (pivot).

    Attributes:
        ratio: relative depth of the pivot, ``at / T``, where T is the branched rollout's number of response tokens.
        success: whether any branch succeeded.
        failed: whether the branched rollout had failed, so that a success is a recovery.
    """

    ratio: float
    success: bool
    failed: bool


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """The rollouts from which one call of ``select`` picks branch points (pivots).

    Attributes:
        chains: one rollout, or all rollouts of one tree or problem (``Selector.over``), in the order of their numbers
            in the group.
        members: number of rollouts of the problem so far, including rollouts that may not be branched.
        round: number of the branching round in this step, counted from 0.
        branches: rollouts per pivot.
        seed: seed derived from the run, the source and the round; a selector uses no other randomness.
        engine: computes the policy's attention, for selectors that need it.
    """

    chains: Sequence[SegmentedRollout]
    members: int
    round: int
    branches: int
    seed: int
    engine: Engine


@runtime_checkable
class FillingSelector(Protocol):
    """A selector that branches until every problem has a fixed number of rollouts (``fills``)."""

    @property
    def fills(self) -> int: ...


class Selector(Options):
    """A rule that picks branch points (pivots). Fields are the recipe's options; private attributes hold the state."""

    over: ClassVar[Literal["rollout", "tree", "problem"]] = "rollout"
    """The unit of a source: a single rollout, a root with its whole tree, or all rollouts of a problem."""

    requires: ClassVar[Needs] = NOTHING
    """Optional engine features that the selector needs."""

    @property
    def plants(self) -> bool:
        """Whether the selector may pick the end of the prompt. Branches from there have no parent."""
        return False

    def select(self, source: Source, pivots: int) -> list[Pivot]:
        """Pick at most ``pivots`` branch points. A branch point that is picked twice gets twice as many branches."""
        raise NotImplementedError

    def observe(self, outcomes: Sequence[PivotOutcome]) -> dict[str, float]:
        """Learn from the outcomes of the branch points of a finished step, and return the selector's metrics.

        The order of ``outcomes`` does not depend on batch order.
        """
        return {}

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state:
            raise ValueError(f"{type(self).__name__} keeps no state, but the checkpoint holds {sorted(state)}")
