"""Checks, before any weights are loaded, that a model can be trained and evaluated on a task's problems."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from outrider.config import Recipe
from outrider.errors import UserError
from outrider.explore.stream import ProblemStream
from outrider.model.options import PolicyOptions
from outrider.preflight.verifier import failing_verifier
from outrider.record import Problem
from outrider.tasks.heldout import HeldoutRange, heldout_problems
from outrider.tasks.table import Table
from outrider.tasks.task import Task, counts_of
from outrider.tasks.turn_task import TurnTask

if TYPE_CHECKING:
    from outrider.preflight.prompts import Fault, LongPrompt, Prompts


class Wanted(NamedTuple):
    """The problems that a command needs from its task.

    Attributes:
        per_step: number of different training problems per step; None if there is no training.
        evaluate: options that select the held-out problems to evaluate; None if there is no evaluation.
        max_tokens: maximum number of tokens in a response.
    """

    per_step: int | None
    evaluate: HeldoutRange | None
    max_tokens: int


class Preflight(NamedTuple):
    """The result of all checks: the warnings, and one sentence for each error that would stop a run."""

    refused: list[str]
    notices: list[str]
    skipped: bool = False
    """Whether a check was skipped because a file is not on this machine."""
    long: frozenset[tuple[str, str]] = frozenset()
    """Side (training or held out) and place of each row that the task excludes because its prompt is too long."""

    def refuse(self) -> Preflight:
        """Return this result, or raise an error if the checks found an error that would stop a run.

        Raises:
            UserError: the checks found such an error; the message contains the first error, and the number of other
                errors.
        """
        if self.refused:
            first, *others = self.refused
            more = f"; and {len(others)} more, listed by `outrider validate`" if others else ""
            raise UserError(f"{first}{more}")
        return self


def wanted_by(recipe: Recipe) -> Wanted:
    """Return how many training problems and which held-out problems a training run needs, and how long its responses
    may be."""
    heldout = recipe.evaluate if recipe.evaluates else None
    return Wanted(recipe.train.problems, heldout, recipe.sample.max_tokens)


def preflight(task: Task, wanted: Wanted, model: str | None, policy: PolicyOptions) -> Preflight:
    """Run all checks that need only the task's problems, the model's tokenizer and the configuration.

    With the task option ``skip: long``, rows whose prompt is too long are removed from ``task``. Other processes must
    call :func:`leave_out` to remove these rows, too.

    Args:
        model: the model whose tokenizer encodes the prompts; if None, prompts are not checked.
    """
    refused: list[str] = []
    notices: list[str] = []
    long: frozenset[tuple[str, str]] = frozenset()
    try:
        prompts = None if model is None else _prompts(model, policy)
        table = _table(task)
        if prompts is not None and table is not None and table.skips_long:
            long = _too_long(table, prompts, wanted.max_tokens)
            leave_out(task, long)
        train = [] if wanted.per_step is None else _train_problems(task, wanted.per_step)
        heldout = [] if wanted.evaluate is None else heldout_problems(task, wanted.evaluate)
    except UserError as error:
        return Preflight([str(error)], [])
    if why := failing_verifier(task, train or heldout):
        refused.append(why)
    different = len({problem.id for problem in train})
    if wanted.per_step is not None and different < wanted.per_step:
        refused.append(
            f"train.problems: a step needs {wanted.per_step} different problems, and task {task.name!r} has "
            f"{different} training problems"
        )
    if wanted.evaluate is not None and len(heldout) < wanted.evaluate.problems:
        notices.append(
            f"evaluate.problems is {wanted.evaluate.problems:,}, but there are {len(heldout):,} held-out problems"
            + (f" beyond the first {wanted.evaluate.skip:,} (evaluate.skip)" if wanted.evaluate.skip else "")
        )
    for side, problems in (("training", train), ("held-out", heldout)):
        if prompts is None or not problems:
            continue
        found = prompts.check(problems, wanted.max_tokens)
        none_left = [prompt for prompt in found.long if prompt.tokens >= prompts.context]
        refused += _sentences([*found.faults, *(_no_room(prompt, table, prompts.context) for prompt in none_left)])
        if short := len(found.long) - len(none_left):
            notices.append(
                f"{short:,} of {len(problems):,} {side} prompts leave fewer than sample.max_tokens "
                f"({wanted.max_tokens:,}) of the model's {prompts.context:,} tokens of context: their responses end "
                "earlier"
            )
    return Preflight(refused, notices, long=long)


def leave_out(task: Task, places: Collection[tuple[str, str]]) -> None:
    """Exclude rows whose prompts are too long, as :func:`preflight` found in another process. ``places`` has a pair for
    each row: first ``train`` or ``heldout``, then the row's file and number."""
    table = _table(task)
    if table is not None and table.skips_long:
        table.leave_out(places)


def _table(task: Task) -> Table | None:
    inner = task.table if isinstance(task, TurnTask) else task
    return inner if isinstance(inner, Table) else None


def _too_long(table: Table, prompts: Prompts, max_tokens: int) -> frozenset[tuple[str, str]]:
    """Return a pair for each row whose prompt is too long: first ``train`` or ``heldout``, then the row's file and
    number. After such a prompt, the model's context has no room for a response of the maximum length."""
    table.leave_out([])
    counts = table.counts
    sides = {
        "train": [table.train(index) for index in range(counts["train"])],
        "heldout": table.heldout(counts["heldout"]),
    }
    # training and held-out rows may come from one source with several splits, in which row numbers start again
    return frozenset(
        (side, prompt.problem.metadata["place"])
        for side, problems in sides.items()
        for prompt in prompts.check(problems, max_tokens).long
    )


def _no_room(prompt: LongPrompt, table: Table | None, context: int) -> Fault:
    from outrider.preflight.prompts import Fault

    hint = "" if table is None else "; skip: long excludes and counts such rows"
    why = f"its prompt of {prompt.tokens:,} tokens fills the model's context of {context:,}"
    return Fault(prompt.problem, why + hint)


def _train_problems(task: Task, per_step: int) -> Sequence[Problem]:
    """Return all training problems if the task has a known number of them, otherwise the problems of the first step."""
    table = counts_of(task).get("train")
    if table is not None:
        return [task.train(index) for index in range(table)]
    return ProblemStream(task.train).take(per_step)


def _prompts(model: str, policy: PolicyOptions) -> Prompts:
    from outrider.preflight.prompts import Prompts  # not at the top: a dry run must work without torch

    return Prompts(model, policy)


def _sentences(faults: Sequence[Fault]) -> list[str]:
    """Return one sentence per fault. Each sentence begins with the problem's file and row number or, if they are
    unknown, with its id."""
    return [
        f"{place}: {reason}"
        if (place := problem.metadata.get("place"))
        else f"problem {problem.id!r}: {reason.removeprefix(f'problem {problem.id!r}: ')}"
        for problem, reason in faults
    ]
