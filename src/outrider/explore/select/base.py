"""The contract of a selector: at which cuts of which rollouts to branch."""

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
    """A place to branch from: after ``rollout.response_ids[:at]``. At 0 it is the prompt, so a new rollout."""

    rollout: Rollout
    at: int


class PivotOutcome(NamedTuple):
    """What the branches of one pivot came to.

    Attributes:
        ratio: relative depth of the pivot, ``at / T`` with T the response tokens of the rollout that was branched.
        success: whether any branch succeeded.
        failed: whether the rollout that was branched had failed, so that a success is a recovery.
    """

    ratio: float
    success: bool
    failed: bool


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """What pivots are chosen from in one go.

    Attributes:
        chains: one rollout, those of one tree, or those of one problem, by the selector's ``over``; in member order.
        members: rollouts that their problem has so far, those that may not be branched too.
        round: of the stage, from 0.
        branches: how many rollouts every pivot gets.
        seed: made of the run, the source and the round: the only randomness that a selector uses.
        engine: for attention.
    """

    chains: Sequence[SegmentedRollout]
    members: int
    round: int
    branches: int
    seed: int
    engine: Engine


@runtime_checkable
class FillingSelector(Protocol):
    """A selector that fills every problem up to a number of rollouts, whatever ``pivots`` says."""

    @property
    def fills(self) -> int: ...


class Selector(Options):
    """One rule for choosing pivots. Fields are the recipe's options; state lives in ``PrivateAttr``."""

    over: ClassVar[Literal["rollout", "tree", "problem"]] = "rollout"
    """What a source is: each rollout by itself, a root with all that grew from it, or all rollouts of a problem."""

    requires: ClassVar[Needs] = NOTHING
    """What it needs that not every engine gives."""

    @property
    def plants(self) -> bool:
        """Whether a pivot may be the prompt, so that its branches are new roots."""
        return False

    def select(self, source: Source, pivots: int) -> list[Pivot]:
        """At most ``pivots`` pivots; a pivot that is given twice gets twice the branches."""
        raise NotImplementedError

    def observe(self, outcomes: Sequence[PivotOutcome]) -> dict[str, float]:
        """Learn from the pivots of a finished step, and give its numbers.

        The order of the pivots does not depend on that of the problems.
        """
        return {}

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state:
            raise ValueError(f"{type(self).__name__} keeps no state, but the checkpoint holds {sorted(state)}")
