"""The interface of a task, which provides problems and verifies responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from outrider.options import Options
from outrider.record import Problem, Verdict
from outrider.verify.plain_verdict import plain_verdict

if TYPE_CHECKING:
    from outrider.verify.processes import Item


class Task(Options):
    """A source of problems, which also verifies responses. The fields of a task are its options, and private attributes
    hold its state.

    ``train(index)`` returns a problem of an endless, reproducible stream. The same index gives the same problem on
    every machine, so the position in the data can be stored as one integer. A finite set of problems is repeated in
    epochs, each in a new seeded order. ``heldout(n)`` returns problems for evaluations, which are fixed and never occur
    in the training stream.

    A task may also implement these interfaces: :class:`BatchTask`, :class:`SolvedTask`, :class:`CountedTask`,
    :class:`MessageTask`, :class:`CharacterTask`, :class:`SubwordTask`.
    """

    @property
    def name(self) -> str:
        raise NotImplementedError

    @property
    def fingerprint(self) -> str:
        """Identity of the data. A run cannot be resumed if the fingerprint has changed."""
        raise NotImplementedError

    def train(self, index: int) -> Problem:
        raise NotImplementedError

    def heldout(self, n: int) -> list[Problem]:
        """Return the first ``n`` held-out problems, or all if there are fewer. If the task has difficulty levels, the
        problems alternate between them."""
        raise NotImplementedError

    def verify(self, problem: Problem, text: str, finished: bool) -> Verdict:
        """Verify a response. ``finished`` is False if a limit truncated the response."""
        raise NotImplementedError

    def close(self) -> None:
        """Close processes and files. The task may be used again afterwards."""


@runtime_checkable
class BatchTask(Protocol):
    """A task that verifies many responses in parallel."""

    def verify_all(self, items: Sequence[Item]) -> list[Verdict]:
        """Verify items, and return one verdict per item, in order."""
        ...


@runtime_checkable
class SolvedTask(Protocol):
    """A task that can provide correct responses for problems without ``metadata["solution"]``."""

    def right(self, problem: Problem) -> str | None:
        """Return a response that must be accepted as correct, or None if the task cannot provide any."""
        ...


@runtime_checkable
class CountedTask(Protocol):
    """A task that reports counts about its data to the user."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Counts by name, such as the sizes of the training and held-out sets, or the number of excluded problems."""
        ...


@runtime_checkable
class MessageTask(Protocol):
    """A task whose prompts may be chat messages."""

    @property
    def conversational(self) -> bool:
        """Whether prompts are chat messages, which need a chat template."""
        ...


@runtime_checkable
class CharacterTask(Protocol):
    """A task for which a base model with a character vocabulary can be created."""

    @property
    def characters(self) -> str:
        """All characters that occur in problems and solutions."""
        ...


@runtime_checkable
class SubwordTask(Protocol):
    """A task for which Outrider trains a base model with subword tokens, which are learnt from the task's texts. For
    other tasks, each character is a token."""

    @property
    def subwords(self) -> bool: ...


def verify_all(task: Task, items: Sequence[Item]) -> list[Verdict]:
    """Verify many items, in parallel if the task supports it, and return the verdicts in order."""
    return task.verify_all(items) if isinstance(task, BatchTask) else verify_in_turn(task, items)


def verify_in_turn(task: Task, items: Sequence[Item]) -> list[Verdict]:
    """Verify items one after the other with ``task.verify``."""
    return [plain_verdict(task.verify(*item)) for item in items]


def right_response(task: Task, problem: Problem) -> str | None:
    """Return a response that must be accepted as correct, or None if the task cannot provide any."""
    return task.right(problem) if isinstance(task, SolvedTask) else problem.metadata.get("solution")


def counts_of(task: Task) -> Mapping[str, int]:
    """Return counts about the data of a task. The result is empty if the task reports no counts."""
    return task.counts if isinstance(task, CountedTask) else {}


def writes_messages(task: Task) -> bool:
    """Return whether the prompts of a task are chat messages."""
    return isinstance(task, MessageTask) and task.conversational


def counted(task: Task) -> str:
    """Return the counts of a task as one line of text, or an empty string if there are no counts.

    >>> from outrider.tasks import Countdown
    >>> counted(Countdown())
    ''
    """
    numbers = ", ".join(f"{number:,} {what.replace('_', ' ')}" for what, number in counts_of(task).items())
    return f"problems of {task.name}: {numbers}" if numbers else ""
