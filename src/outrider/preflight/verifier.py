"""Whether somebody's own verifier works at all: it is called on a few problems before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from outrider.plugins import provenances_in
from outrider.record import Outcome, Problem
from outrider.tasks import Table
from outrider.tasks.task import Task, right_response

PROBES = 4  # problems: a reward that does not apply to one of them is no mistake
_FAILED = (Outcome.ERROR, Outcome.TIMEOUT)


def failing_verifier(task: Task, problems: Sequence[Problem]) -> str:
    """Why no response can be verified, in a sentence; empty where one of ``PROBES`` problems got a verdict.

    Verifiers that Outrider ships are not called: their tests do that. An environment gives its own verdicts.
    """
    if not isinstance(task, Table) or not problems or not provenances_in(task.verifier):
        return ""
    verdicts = task.verify_all([(problem, _response(task, problem), True) for problem in problems[:PROBES]])
    if any(verdict.outcome not in _FAILED for verdict in verdicts):
        return ""
    return (
        f"task.table.verifier fails on each of {len(verdicts)} problems, given the gold answer as the response: "
        f"{verdicts[0].detail}"
    )


def _response(task: Task, problem: Problem) -> str:
    """A right response, the gold answer, or where a problem has neither its prompt."""
    answer = problem.answer.get("answer") if isinstance(problem.answer, Mapping) else problem.answer
    return right_response(task, problem) or (answer if isinstance(answer, str) else "") or problem.prompt
