"""Bounds on a step's number of rollouts, computed from the recipe alone before any sampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable


class Bounds(NamedTuple):
    """Minimum and maximum number of rollouts that a step has after a given stage.

    Attributes:
        fewest: minimum number of rollouts in the step.
        most: maximum number of rollouts in the step; None if no upper bound is known.
        first: minimum and maximum number of rollouts that the first sampling stage samples per problem.
    """

    fewest: int = 0
    most: int | None = 0
    first: tuple[int, int] = (0, 0)

    def begun(self, drawn: int, first: tuple[int, int]) -> Bounds:
        """Return the bounds after a stage that samples only for problems without rollouts."""
        return self if self.most != 0 else Bounds(drawn, drawn, first)

    def more(self, most: int) -> Bounds:
        """Return the bounds after a stage that adds at most ``most`` rollouts, and may add none."""
        return self if self.most is None else self._replace(most=self.most + most)


@runtime_checkable
class BoundedStage(Protocol):
    """A stage with bounds on its number of rollouts. A stage without the method ``bounds`` has no upper bound."""

    def bounds(self, before: Bounds, problems: int) -> Bounds:
        """Return the bounds on the step's rollouts after this stage, given the bounds before the stage. ``problems`` is
        the step's initial number of problems."""
        ...


def bounds_of(stage: object, before: Bounds, problems: int) -> Bounds:
    """Return the bounds on the step's rollouts after a stage, given the bounds before this stage."""
    return stage.bounds(before, problems) if isinstance(stage, BoundedStage) else before._replace(most=None)


def bounds_after(stages: Sequence[object], problems: int) -> Bounds:
    """Return the bounds on a step's rollouts after all ``stages``; the step begins with ``problems`` problems."""
    bounds = Bounds()
    for stage in stages:
        bounds = bounds_of(stage, bounds, problems)
    return bounds
