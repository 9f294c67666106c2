"""Reads the problems of a task with their places in the file, and collects row errors instead of raising them."""

from __future__ import annotations

from typing import NamedTuple

from outrider.errors import UserError
from outrider.record import Problem
from outrider.tasks import Suite, Table, Task
from outrider.tasks.task import counts_of
from outrider.tasks.turn_task import TurnTask

TRAIN, HELDOUT = "train", "held out"


class SideEntry(NamedTuple):
    """A problem, its place in the file, and its text: the question, without the prompt template if the template is
    known."""

    place: str
    problem: Problem
    text: str


class Side(NamedTuple):
    """The training or the held-out problems, an error message per unusable row, and the number of skipped rows."""

    name: str
    source: str
    entries: list[SideEntry]
    refused: list[str]
    skipped: int = 0


def read_sides(task: Task, problems: int) -> list[Side]:
    """Read the training data (if any) and the held-out data of a task. Every row of a table and every held-out problem
    of a test suite is read. Other tasks generate ``problems`` training problems and as many held-out problems.

    Raises:
        UserError: a file cannot be read, or no row is usable. In the second case, the message is the error of the
            first unusable row.
    """
    if isinstance(task, Table):
        sides = [] if task.train_data is None else [read_side(task, task.train_data, heldout=False)]
        return [*sides, read_side(task, task.heldout_data, heldout=True)]
    if isinstance(task, Suite):
        return [_drawn(HELDOUT, task, task.heldout(task.size))._replace(skipped=counts_of(task).get("rows_skipped", 0))]
    train = [task.train(index) for index in range(problems)]
    return [_drawn(TRAIN, task, train), _drawn(HELDOUT, task, task.heldout(problems))]


def read_side(task: Table, source: str, heldout: bool) -> Side:
    """Read all rows of one file of a table task. Training rows that are also in the held-out data are included. Errors
    are raised as in :func:`read_sides`."""
    refused: list[str] = []
    found = task.side(source, heldout=heldout, refuse=lambda error: refused.append(str(error)))
    entries = [_entry(problem.metadata["place"], problem) for problem in found.problems]
    return Side(HELDOUT if heldout else TRAIN, source, entries, refused, found.skipped)


def _drawn(name: str, task: Task, problems: list[Problem]) -> Side:
    if not problems:
        raise UserError(f"task {task.name!r} has no problems ({name}), so there is nothing to check")
    entries = [_entry(problem.id, problem) for problem in problems]
    if isinstance(task, TurnTask):  # problems with equal questions may have different facts, so their ids are compared
        entries = [entry._replace(text=entry.place) for entry in entries]
    return Side(name, task.name, entries, [])


def _entry(place: str, problem: Problem) -> SideEntry:
    return SideEntry(place, problem, str(problem.metadata.get("question", problem.question)))
