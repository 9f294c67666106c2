"""How many rollouts a step holds at most and at least, as far as its stages say beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable


class Bounds(NamedTuple):
    """What a step holds at some stage, as far as a recipe says beforehand.

    Attributes:
        fewest: rollouts of the step.
        most: the same; None behind a stage that adds rollouts or drops groups by what it finds, without a useful bound.
        first: fewest and most of a problem in the first pass, by a stage that draws for problems without any.
    """

    fewest: int = 0
    most: int | None = 0
    first: tuple[int, int] = (0, 0)

    def begun(self, drawn: int, first: tuple[int, int]) -> Bounds:
        """After a stage that draws for problems without rollouts, and for no others."""
        return self if self.most != 0 else Bounds(drawn, drawn, first)

    def more(self, most: int) -> Bounds:
        """After a stage that adds this many at most, and may add none."""
        return self if self.most is None else self._replace(most=self.most + most)


@runtime_checkable
class BoundedStage(Protocol):
    """A stage that bounds its rollouts. A stage without this method has no upper bound."""

    def bounds(self, before: Bounds, problems: int) -> Bounds:
        """Bounds after its turn, from those before it, in a step that begins with so many problems."""
        ...


def bounds_of(stage: object, before: Bounds, problems: int) -> Bounds:
    """Bounds after the turn of a stage, from those before it."""
    return stage.bounds(before, problems) if isinstance(stage, BoundedStage) else before._replace(most=None)


def bounds_after(stages: Sequence[object], problems: int) -> Bounds:
    """Bounds of a step of so many problems after these stages, from nothing."""
    bounds = Bounds()
    for stage in stages:
        bounds = bounds_of(stage, bounds, problems)
    return bounds
