"""The contract of a task: where problems come from and how an answer to one is judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from outrider.options import Options
from outrider.record import Problem, Verdict
from outrider.verify.plain_verdict import plain_verdict


class Task(Options):
    """A source of problems with verdicts. Fields are the recipe's options; state lives in ``PrivateAttr``.

    ``train(index)`` is random access into an endless, reproducible stream: the same index gives the same problem on
    every machine, so a data position is one integer. Finite sets run through seeded permutations, epoch after epoch.
    ``heldout(n)`` are the problems of evaluation, fixed and disjoint from every ``train(index)``.
    """

    turns: ClassVar[bool] = False
    """Whether a rollout may have several turns, with messages of the environment between them."""

    characters: ClassVar[str | None] = None
    """All that its problems and their solutions are written with, where a base may be made for it alone."""

    subwords: ClassVar[bool] = False
    """Whether a base made for it reads pieces of words, learnt from its own texts, and not characters."""

    @property
    def name(self) -> str:
        raise NotImplementedError

    @property
    def fingerprint(self) -> str:
        """Identity of the data: resuming on another fingerprint is refused."""
        raise NotImplementedError

    @property
    def counts(self) -> Mapping[str, int]:
        """Facts about the data for the user: sizes, and problems left out or drawn again; may be empty."""
        return {}

    @property
    def conversational(self) -> bool:
        """Whether its prompts are messages, which only a chat template can write."""
        return False

    def train(self, index: int) -> Problem:
        raise NotImplementedError

    def heldout(self, n: int) -> list[Problem]:
        """The first ``n`` held-out problems, spread over the levels; fewer where the set is smaller."""
        raise NotImplementedError

    def right(self, problem: Problem) -> str | None:
        """A response that has to be judged correct; None where none can be made."""
        return problem.metadata.get("solution")

    def verify(self, problem: Problem, text: str, finished: bool) -> Verdict:
        """Judge a response. ``finished`` is False where it was cut off by a limit."""
        raise NotImplementedError

    def verify_all(self, items: Sequence[tuple[Problem, str, bool]]) -> list[Verdict]:
        """``verify`` of many at once, in order, in parallel where a process pool judges."""
        return [plain_verdict(self.verify(*item)) for item in items]

    def close(self) -> None:
        """Close processes and files; the task may be used again afterwards."""


def counted(task: Task) -> str:
    """The counts of a task as one sentence; empty where it has none.

    >>> from outrider.tasks import Countdown
    >>> counted(Countdown())
    ''
    """
    numbers = ", ".join(f"{number:,} {what.replace('_', ' ')}" for what, number in task.counts.items())
    return f"problems of {task.name}: {numbers}" if numbers else ""
