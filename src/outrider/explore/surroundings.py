"""The parts of a recipe that an exploration stage checks when the recipe is read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from outrider.errors import nearest
from outrider.explore.bounds import Bounds, bounds_after


class Surroundings(NamedTuple):
    """The parts of the recipe that a stage has to be consistent with.

    Attributes:
        before: the stages before this stage, in order.
        problems: number of problems that a step begins with.
        max_tokens: maximum number of tokens in a response.
        streams: the keys of the recipe's ``credit``: the loss streams (separately weighted parts of the loss).
        task: name of the task.
        turns: whether the task's rollouts have several turns.
        after: the stages after this stage, in order.
        goal: k, if the recipe's ``credit.main`` estimates the gradient of a pass@k objective; None otherwise.
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
        """Bounds on the step's number of rollouts at the time when this stage begins."""
        return bounds_after(self.before, self.problems)

    def refuse_limit(self, max_tokens: int) -> None:
        """Raise ValueError if the stage assumes a response limit other than ``sample.max_tokens``."""
        if max_tokens != self.max_tokens:
            raise ValueError(
                f"assumes responses of at most {max_tokens} tokens, but sample.max_tokens is {self.max_tokens}"
            )

    def refuse_drawn(self) -> None:
        """Raise ValueError if earlier stages sample every problem, since this stage samples only problems without
        rollouts."""
        if fewest := self.bounds.first[0]:
            raise ValueError(
                f"samples only for problems without rollouts, but each already has at least {fewest}: it comes in "
                "place of uniform, so remove the stage before it"
            )

    def refuse_stream(self, stream: str) -> None:
        """Raise ValueError if the recipe's ``credit`` has no entry for the loss stream."""
        if stream not in self.streams:
            hint = nearest(stream, self.streams)
            raise ValueError(f"samples for the loss stream {stream!r}, which has no chain in credit ({hint})")
