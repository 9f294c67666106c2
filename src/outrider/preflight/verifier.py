"""Checks that a user's own verifier works, by calling it on a few problems before the run folder is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from outrider.plugins import provenances_in
from outrider.record import Outcome, Problem
from outrider.tasks import Table
from outrider.tasks.task import Task, right_response

PROBES = 4  # number of problems to verify; more than one, since a reward may not apply to every problem
_FAILED = (Outcome.ERROR, Outcome.TIMEOUT)


def failing_verifier(task: Task, problems: Sequence[Problem]) -> str:
    """Return a sentence that says why a verifier fails on every response; empty if it can verify at least one response.

    For each of the first ``PROBES`` problems, the verifier gets three texts as responses: the task's reference
    solution, the gold answer and the prompt. A missing solution or answer is skipped. Verifiers that ship with Outrider
    are not called, since their own tests cover them. Environments are not called either, since they return their own
    verdicts.
    """
    if not isinstance(task, Table) or not problems or not provenances_in(task.verifier):
        return ""
    tried = problems[:PROBES]
    items = [(problem, response, True) for problem in tried for response in _responses(task, problem)]
    verdicts = task.verify_all(items)
    if not verdicts or any(verdict.outcome not in _FAILED for verdict in verdicts):
        return ""
    return (
        f"task.table.verifier fails on every response to {len(tried)} problems: {verdicts[0].detail} (the response was "
        f"{items[0][1]!r:.60})"
    )


def _responses(task: Task, problem: Problem) -> list[str]:
    """Return possible responses to a problem, ordered from most to least likely to be correct."""
    answer = problem.answer.get("answer") if isinstance(problem.answer, Mapping) else problem.answer
    gold = str(answer) if isinstance(answer, str | int | float) else ""
    found = [right_response(task, problem), problem.metadata.get("solution"), gold, problem.prompt]
    return [*dict.fromkeys(response for response in found if response)]
