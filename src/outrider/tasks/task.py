"""The contract of a task: where problems come from and how an answer to one is judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from outrider.record import Problem, Verdict


class Task(Protocol):
    """A source of problems with verdicts.

    ``train(index)`` is random access into an endless, reproducible stream: the same index gives the same problem on
    every machine, so a data position is one integer. Finite sets run through seeded permutations, epoch after epoch.
    ``heldout(n)`` are the problems of evaluation, fixed and disjoint from every ``train(index)``.
    """

    @property
    def name(self) -> str: ...

    @property
    def fingerprint(self) -> str:
        """Identity of the data: resuming on another fingerprint is refused."""
        ...

    def train(self, index: int) -> Problem: ...

    def heldout(self, n: int) -> list[Problem]:
        """The first ``n`` held-out problems, spread over the levels; fewer where the set is smaller."""
        ...

    def verify(self, problem: Problem, text: str, finished: bool) -> Verdict:
        """Judge a response. ``finished`` is False where it was cut off by a limit."""
        ...

    def verify_all(self, items: Sequence[tuple[Problem, str, bool]]) -> list[Verdict]:
        """``verify`` of many at once, in order; where a process pool judges, this is what makes it fast."""
        ...

    def close(self) -> None:
        """Let go of processes and files; the task may be used again afterwards."""
        ...
