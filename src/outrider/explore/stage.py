"""The contract of a stage, which plans the next rollouts from those of the step so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from outrider.explore.surroundings import Surroundings
from outrider.explore.view import View
from outrider.needs import NOTHING, Needs
from outrider.options import Options
from outrider.record import Group, Problem, SampleRequest


class Stage(Options):
    """A way of spending the rollout budget. Fields are the recipe's options; state is in ``PrivateAttr``.

    Only ``plan`` is required. The explorer calls ``plan`` with ``round`` 0, 1, 2, … and has each answer sampled and
    verified, until the answer is empty. Then the stage may ``drop`` groups or rollouts, and the next stage begins.
    After the last stage, ``observe`` of every stage gets the finished groups. All of this happens in one process of a
    run.

    A stage may have further methods, each with its own contract: :class:`outrider.explore.bounds.BoundedStage`,
    :class:`AdmittingStage`, :class:`PreparedStage`, :class:`PredictingStage`; and it may promise that it
    :class:`PlansAhead`.
    """

    @property
    def requires(self) -> Needs:
        """Optional engine features that the stage needs."""
        return NOTHING

    def plan(self, view: View) -> list[SampleRequest]:
        """The next rollouts; an empty list ends the stage."""
        raise NotImplementedError

    def check(self, around: Surroundings) -> None:
        """Refuse, when a recipe is read, surroundings in which the stage cannot work.

        Raises:
            ValueError: what is wrong, in one sentence.
        """

    def drop(self, groups: Sequence[Group]) -> Mapping[str, str]:
        """Exclusions from training: a map from the id of a group, or of a rollout, to the reason. Dropped rollouts stay
        in the records, and their tokens count."""
        return {}

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        """Learn from the finished groups of a step, and return the stage's metrics, with the same names every step.

        Tokens, rollouts and successes of each stage are counted by the trainer.
        """
        return {}

    def state_dict(self) -> dict[str, Any]:
        """All state needed to resume, as JSON data."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state:
            raise ValueError(f"{type(self).__name__} keeps no state, but the checkpoint holds {sorted(state)}")


@runtime_checkable
class PreparedStage(Protocol):
    """A stage that loads models or files once, before sampling starts."""

    def prepare(self) -> None:
        """Load the stage's models and files.

        Raises:
            UserError: a package, model or file is missing.
        """
        ...


@runtime_checkable
class AdmittingStage(Protocol):
    """A stage that filters the problems that come up."""

    def admits(self, problem: Problem, step: int) -> bool:
        """Whether a problem may be taken into this step; a refused problem is skipped."""
        ...


@runtime_checkable
class PredictingStage(Protocol):
    """A stage that predicts a pass rate for each problem."""

    def predicted(self, problem: Problem) -> float | None:
        """The predicted pass rate from earlier steps, from 0 to 1; None without a prediction.

        Called for every problem of a step before ``observe``, and stored with the problem's rollouts.
        """
        ...


class PlansAhead:
    """Marks a stage that plans the whole step before sampling any of its rollouts, and only from plain prompts.

    Credit with a stated goal requires this property: if the number of rollouts depends on outcomes, or failures are
    dropped, the credit estimates the gradient of another goal. Loss streams are not distinguished.
    """
