"""Interface of a stage, which plans the next rollouts from the step's rollouts so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from outrider.explore.surroundings import Surroundings
from outrider.explore.view import View
from outrider.needs import NOTHING, Needs
from outrider.options import Options
from outrider.record import Group, Problem, SampleRequest


class Stage(Options):
    """A rule for spending the rollout budget. Fields are the recipe's options; private attributes hold the state.

    Only ``plan`` is required. The explorer calls ``plan`` with ``round`` 0, 1, 2, … until ``plan`` returns no requests.
    After each call, the requested rollouts are sampled and verified. After the last call, the stage may ``drop`` groups
    or rollouts, and the next stage begins. After the last stage, every stage's ``observe`` gets the finished groups.
    All of this happens in one process of a run.

    A stage may also implement these protocols: :class:`outrider.explore.bounds.BoundedStage`, :class:`AdmittingStage`,
    :class:`PreparedStage`, :class:`PredictingStage`. A subclass of :class:`PlansAhead` plans all rollouts before
    sampling.
    """

    @property
    def requires(self) -> Needs:
        """Optional engine features that the stage needs."""
        return NOTHING

    def plan(self, view: View) -> list[SampleRequest]:
        """Return the requests for the next rollouts; an empty list ends the stage."""
        raise NotImplementedError

    def check(self, around: Surroundings) -> None:
        """Check, when a recipe is read, that the stage can work with the rest of the recipe.

        Raises:
            ValueError: the stage is not compatible with the recipe; the message gives the reason in one sentence.
        """

    def drop(self, groups: Sequence[Group]) -> Mapping[str, str]:
        """Return the ids of groups and rollouts to exclude from training, each with the reason.

        Dropped rollouts are still saved in the run folder, and their tokens count as generated.
        """
        return {}

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        """Learn from the finished groups of a step, and return the stage's metrics. The metrics have the same names in
        every step.

        The trainer itself counts each stage's tokens, rollouts and successes.
        """
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return all state needed to resume, as JSON data."""
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
    """A stage that filters the problems that a step would take."""

    def admits(self, problem: Problem, step: int) -> bool:
        """Whether a problem may be taken into this step; a refused problem is skipped."""
        ...


@runtime_checkable
class PredictingStage(Protocol):
    """A stage that predicts a pass rate for each problem."""

    def predicted(self, problem: Problem) -> float | None:
        """Return the pass rate predicted from earlier steps, from 0 to 1; None if there is no prediction.

        The method is called for every problem of a step before ``observe``; the result is stored with the rollouts.
        """
        ...


class PlansAhead:
    """Marks a stage that plans the whole step before any rollout is sampled, and adds no prefix, hint or example to a
    prompt.

    If a recipe's ``credit`` contains ``stated_goal``, all its stages must be of this kind. ``stated_goal`` estimates
    the gradient of the pass@k objective. If the number of rollouts depended on outcomes, or failures were dropped, the
    estimate would be that of a different objective.
    """
