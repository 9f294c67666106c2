"""The recipe around a stage, which the stage checks when the recipe is read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from outrider.errors import nearest
from outrider.explore.bounds import Bounds, bounds_after


class Surroundings(NamedTuple):
    """The recipe around a stage, as far as a stage has to agree with it.

    Attributes:
        before: the stages before it, in order.
        problems: with which a step begins.
        max_tokens: of a response.
        streams: the loss streams that have a credit chain.
        task: its name.
        turns: whether its rollouts have turns.
        after: the stages behind it.
        goal: k of the pass@k objective, if the credit of stream ``main`` has one.
    """

    before: Sequence[object]
    problems: int
    max_tokens: int
    streams: Collection[str]
    task: str
    turns: bool = False
    after: Sequence[object] = ()
    goal: int | None = None

    @property
    def bounds(self) -> Bounds:
        """Bounds of the step when the turn of the stage comes."""
        return bounds_after(self.before, self.problems)

    def refuse_limit(self, max_tokens: int) -> None:
        """Raise ValueError where responses have another limit than the one that a stage goes by."""
        if max_tokens != self.max_tokens:
            raise ValueError(
                f"assumes responses of at most {max_tokens} tokens, but sample.max_tokens is {self.max_tokens}"
            )

    def refuse_drawn(self) -> None:
        """Raise ValueError where a stage that draws for problems without rollouts would find none."""
        if fewest := self.bounds.first[0]:
            raise ValueError(
                f"finds problems that have {fewest} rollouts or more and would draw nothing: it stands in the place of "
                "uniform, so take out the one before it"
            )

    def refuse_stream(self, stream: str) -> None:
        """Raise ValueError where the rollouts of a stage would get no credit."""
        if stream not in self.streams:
            hint = nearest(stream, self.streams)
            raise ValueError(f"draws for the loss stream {stream!r}, which has no chain in credit ({hint})")
