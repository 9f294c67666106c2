"""The contract of a stage: which rollouts to sample next, given those there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from outrider.explore.surroundings import Surroundings
from outrider.explore.view import View
from outrider.needs import NOTHING, Needs
from outrider.options import Options
from outrider.record import Group, Problem, SampleRequest


class Stage(Options):
    """One way of spending the rollout budget. Fields are the recipe's options; state lives in ``PrivateAttr``.

    Only ``plan`` has to be written. The explorer calls ``plan`` with ``round`` 0, 1, 2, … and has each answer sampled
    and verified, until the answer is empty; then the stage may ``drop`` groups or rollouts, and the next stage begins.
    After the last stage every stage sees the finished groups through ``observe``. All of this happens in one process of
    a run.

    A stage may have more methods, each a contract of its own: :class:`outrider.explore.bounds.BoundedStage`,
    :class:`AdmittingStage`, :class:`PreparedStage`, :class:`PredictingStage`; and it may promise that it
    :class:`PlansAhead`.
    """

    @property
    def requires(self) -> Needs:
        """What it needs that not every engine gives."""
        return NOTHING

    def plan(self, view: View) -> list[SampleRequest]:
        """The next rollouts; none ends the stage's turn."""
        raise NotImplementedError

    def check(self, around: Surroundings) -> None:
        """Refuse, when a recipe is read, surroundings that it cannot work in.

        Raises:
            ValueError: one sentence.
        """

    def drop(self, groups: Sequence[Group]) -> Mapping[str, str]:
        """What is not to be trained on: the id of a group, or of a single rollout, to the reason. It stays on record,
        and its tokens count."""
        return {}

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        """Learn from the finished groups of a step, and give its numbers for the metrics, the same names every step.

        Tokens, rollouts and successes of each stage are counted by the trainer.
        """
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Everything that ``load_state_dict`` needs to plan as if never interrupted; plain JSON data."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state:
            raise ValueError(f"{type(self).__name__} keeps no state, but the checkpoint holds {sorted(state)}")


@runtime_checkable
class PreparedStage(Protocol):
    """A stage that loads something, once and before anything is sampled."""

    def prepare(self) -> None:
        """Load what is needed.

        Raises:
            UserError: a package, model or file is missing.
        """
        ...


@runtime_checkable
class AdmittingStage(Protocol):
    """A stage that chooses among the problems that come up."""

    def admits(self, problem: Problem, step: int) -> bool:
        """Whether a problem may be taken into this step; one that is refused is passed over."""
        ...


@runtime_checkable
class PredictingStage(Protocol):
    """A stage that expects a pass rate of each problem."""

    def predicted(self, problem: Problem) -> float | None:
        """The pass rate that the earlier steps let it expect, from 0 to 1; None while it expects none.

        Asked of every problem of a step before ``observe``, and kept beside the problem's rollouts.
        """
        ...


class PlansAhead:
    """Promised by a stage that decides all of a step before a rollout of it is drawn, and from plain prompts.

    Credit that states a goal asks for it: with more rollouts where some failed, or without those that did, its estimate
    is one of another goal. Loss streams are not distinguished.
    """
