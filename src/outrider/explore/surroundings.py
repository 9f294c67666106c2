"""The rest of a stage's recipe, which the stage checks when the recipe is read."""

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
        streams: the loss streams that have a credit chain (list of credit components).
        task: name of the task.
        turns: whether the task's rollouts have several turns.
        after: the stages after this stage, in order.
        goal: k of the pass@k objective whose gradient is estimated by the credit chain of the stream ``main``; None if
            there is no such k.
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
        """Raise ValueError if earlier stages have sampled, so that no problem without rollouts is left for this
        stage."""
        if fewest := self.bounds.first[0]:
            raise ValueError(
                f"samples only for problems without rollouts, but each already has at least {fewest}: it comes in "
                "place of uniform, so remove the stage before it"
            )

    def refuse_stream(self, stream: str) -> None:
        """Raise ValueError if the recipe has no credit chain for the stage's loss stream."""
        if stream not in self.streams:
            hint = nearest(stream, self.streams)
            raise ValueError(f"samples for the loss stream {stream!r}, which has no chain in credit ({hint})")
