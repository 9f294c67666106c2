"""Bounds on the rollouts of a step, known before it from the recipe alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable


class Bounds(NamedTuple):
    """Bounds on a step's rollouts before some stage, from the recipe alone.

    Attributes:
        fewest: minimum rollouts of the step.
        most: maximum rollouts of the step; None after a stage that adds rollouts or drops groups depending on outcomes,
            without a useful bound.
        first: minimum and maximum rollouts per problem of the stage that samples for problems without rollouts.
    """

    fewest: int = 0
    most: int | None = 0
    first: tuple[int, int] = (0, 0)

    def begun(self, drawn: int, first: tuple[int, int]) -> Bounds:
        """Bounds after a stage that samples only for problems without rollouts."""
        return self if self.most != 0 else Bounds(drawn, drawn, first)

    def more(self, most: int) -> Bounds:
        """Bounds after a stage that adds at most ``most`` rollouts, and may add none."""
        return self if self.most is None else self._replace(most=self.most + most)


@runtime_checkable
class BoundedStage(Protocol):
    """A stage that bounds its rollouts. A stage without this method has no upper bound."""

    def bounds(self, before: Bounds, problems: int) -> Bounds:
        """Bounds after the stage, from the bounds before it, in a step that begins with ``problems`` problems."""
        ...


def bounds_of(stage: object, before: Bounds, problems: int) -> Bounds:
    """Bounds after a stage, from the bounds before it."""
    return stage.bounds(before, problems) if isinstance(stage, BoundedStage) else before._replace(most=None)


def bounds_after(stages: Sequence[object], problems: int) -> Bounds:
    """Bounds of a step with ``problems`` problems after all of ``stages``."""
    bounds = Bounds()
    for stage in stages:
        bounds = bounds_of(stage, bounds, problems)
    return bounds
