"""The contract of a task: where problems come from and how an answer to one is verified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from outrider.options import Options
from outrider.record import Problem, Verdict
from outrider.verify.plain_verdict import plain_verdict

if TYPE_CHECKING:
    from outrider.verify.processes import Item


class Task(Options):
    """A source of problems with verdicts. Fields are the recipe's options; state lives in ``PrivateAttr``.

    ``train(index)`` is random access into an endless, reproducible stream: the same index gives the same problem on
    every machine, so a data position is one integer. Finite sets run through seeded permutations, epoch after epoch.
    ``heldout(n)`` are the problems of evaluation, fixed and disjoint from every ``train(index)``.

    A task may have more methods, each a contract of its own: :class:`BatchTask`, :class:`SolvedTask`,
    :class:`CountedTask`, :class:`MessageTask`, :class:`CharacterTask`, :class:`SubwordTask`.
    """

    @property
    def name(self) -> str:
        raise NotImplementedError

    @property
    def fingerprint(self) -> str:
        """Identity of the data: resuming on another fingerprint is refused."""
        raise NotImplementedError

    def train(self, index: int) -> Problem:
        raise NotImplementedError

    def heldout(self, n: int) -> list[Problem]:
        """The first ``n`` held-out problems, spread over the levels; fewer where the set is smaller."""
        raise NotImplementedError

    def verify(self, problem: Problem, text: str, finished: bool) -> Verdict:
        """Verify a response. ``finished`` is False where it was truncated by a limit."""
        raise NotImplementedError

    def close(self) -> None:
        """Close processes and files; the task may be used again afterwards."""


@runtime_checkable
class BatchTask(Protocol):
    """A task that verifies many responses side by side."""

    def verify_all(self, items: Sequence[Item]) -> list[Verdict]:
        """One verdict per item, in order."""
        ...


@runtime_checkable
class SolvedTask(Protocol):
    """A task that can write a right response by more than its problems' ``metadata["solution"]``."""

    def right(self, problem: Problem) -> str | None:
        """A response that has to be accepted as correct; None where none can be made."""
        ...


@runtime_checkable
class CountedTask(Protocol):
    """A task with facts about its data for the user."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Sizes, and problems excluded or drawn again."""
        ...


@runtime_checkable
class MessageTask(Protocol):
    """A task whose prompts may be messages."""

    @property
    def conversational(self) -> bool:
        """Whether they are: only a chat template can write them."""
        ...


@runtime_checkable
class CharacterTask(Protocol):
    """A task for which a base may be made that knows its characters alone."""

    @property
    def characters(self) -> str:
        """All that its problems and their solutions are written with."""
        ...


@runtime_checkable
class SubwordTask(Protocol):
    """A task for which a base reads subwords, learnt from the task's own texts, and not characters."""

    @property
    def subwords(self) -> bool: ...


def verify_all(task: Task, items: Sequence[Item]) -> list[Verdict]:
    """``task.verify`` of many items, in order; side by side where the task can."""
    return task.verify_all(items) if isinstance(task, BatchTask) else verify_in_turn(task, items)


def verify_in_turn(task: Task, items: Sequence[Item]) -> list[Verdict]:
    """``task.verify`` of one item after the other."""
    return [plain_verdict(task.verify(*item)) for item in items]


def right_response(task: Task, problem: Problem) -> str | None:
    """A response that has to be accepted as correct; None where none can be made."""
    return task.right(problem) if isinstance(task, SolvedTask) else problem.metadata.get("solution")


def counts_of(task: Task) -> Mapping[str, int]:
    """Facts about the data of a task; empty where it tells none."""
    return task.counts if isinstance(task, CountedTask) else {}


def writes_messages(task: Task) -> bool:
    """Whether the prompts of a task are messages."""
    return isinstance(task, MessageTask) and task.conversational


def counted(task: Task) -> str:
    """The counts of a task as one sentence; empty where it has none.

    >>> from outrider.tasks import Countdown
    >>> counted(Countdown())
    ''
    """
    numbers = ", ".join(f"{number:,} {what.replace('_', ' ')}" for what, number in counts_of(task).items())
    return f"problems of {task.name}: {numbers}" if numbers else ""
