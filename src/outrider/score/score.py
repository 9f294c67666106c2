"""``outrider score``: verifies saved generations with a task's verifier."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from outrider.errors import UserError
from outrider.importers.plain import PLAIN
from outrider.measure import Evaluation
from outrider.record import Outcome, Problem, StopReason, Verdict
from outrider.report.comparing.evaluated import evaluations_of
from outrider.report.data import RunData
from outrider.report.models import models_of
from outrider.score.match import Matcher
from outrider.tasks import Task
from outrider.tasks.task import verify_all
from outrider.tasks.turn_task import TurnTask

_CHUNK = 2048  # responses that are verified together, enough to keep a pool of processes busy


class Scored(NamedTuple):
    """Saved generations, with their verdicts and an evaluation.

    Attributes:
        rollouts: rollouts as plain data (:mod:`outrider.importers.plain`), with new verdicts and problem ids.
        evaluation: pass@k, majority vote and other metrics. Response lengths are 0 if the saved generations have no
            token counts.
        notes: sentences about how problems were matched, which rollouts were skipped, and how the file's verdicts
            differ from the new verdicts.
        models: one evaluation per model, if the file has responses from several models.
    """

    rollouts: pa.Table
    evaluation: Evaluation
    notes: list[str]
    models: Mapping[str, Evaluation]

    def __repr__(self) -> str:
        numbers = ", ".join(f"pass@{k} {found.value:.3f}" for k, found in self.evaluation.overall.pass_at.items())
        return f"Scored({self.rollouts.num_rows} generations, {numbers})"


def score(run: RunData, task: Task, problems: Sequence[Problem]) -> Scored:
    """Verify saved responses (a dump) to a task's problems.

    Only rollouts from the last step are verified. If the dump has evaluations, training rollouts are ignored.
    :class:`Matcher` finds the problem of each response. Rollouts that continue another rollout, and responses to other
    problems, are skipped and counted. If the dump marks a response as truncated, the verifier is told that the response
    is unfinished. A missing response (null) gets the outcome ``ERROR``.

    Raises:
        UserError: no response belongs to a problem of the task, no matched response has a text, or the task is
            multi-turn.
    """
    if isinstance(task, TurnTask):
        raise UserError(
            f"rollouts of task {task.name!r} have turns and are verified by their environment during sampling"
        )
    rows, notes = _chosen(run)
    match = Matcher(problems)
    belongs = [match(row["problem_id"], row["prompt"]) for row in rows]
    taken = [(row, problem) for row, problem in zip(rows, belongs, strict=True) if problem is not None]
    if not taken:
        raise UserError(
            f"{run.name}: none of its {len(rows)} responses belongs to one of the {len(problems)} problems of "
            f"{task.name}; name the field that identifies problems, such as --column problem=id or --column "
            "prompt=question"
        )
    notes += _matching_notes(rows, taken, match)
    verdicts = _verified(run, task, taken, notes)
    notes += _disagreements([row["outcome"] for row, _ in taken], verdicts)
    answered = {problem.id for _, problem in taken}
    if len(answered) < len(problems):
        notes.append(f"{len(problems) - len(answered)} of {len(problems)} problems have no response and are excluded.")
    if any(row["tokens"] is None for row, _ in taken):
        notes.append("Some responses have no token count; lengths and costs count them as 0.")
    rollouts = _table(taken, verdicts, apart=_apart(taken, notes))
    scored = RunData.of(run.name, rollouts)
    return Scored(rollouts, evaluations_of(scored)[0], notes, models_of(scored))


def _verified(
    run: RunData, task: Task, taken: Sequence[tuple[dict[str, Any], Problem]], notes: list[str]
) -> list[Verdict]:
    """Return the verdicts in the responses' order. Missing responses are counted and get the outcome ``ERROR``."""
    there = [
        (_asked(problem, row["prompt"]), row["text"], not _truncated(row))
        for row, problem in taken
        if row["text"] is not None
    ]
    if not there:
        raise UserError(
            f"{run.name}: none of its {len(taken)} responses has a text; name the field of the text, such as --column "
            "text=response"
        )
    given = iter([v for start in range(0, len(there), _CHUNK) for v in verify_all(task, there[start : start + _CHUNK])])
    if missing := len(taken) - len(there):
        notes.append(f"{missing} of {len(taken)} responses are null in the file: not verified, and counted as errors.")
    if empty := sum(not text.strip() for _, text, _ in there):
        notes.append(f"{empty} of {len(taken)} responses are empty texts and are verified as empty.")
    nothing = Verdict(Outcome.ERROR, math.nan, detail="no response in the file")
    return [nothing if row["text"] is None else next(given) for row, _ in taken]


def _asked(problem: Problem, prompt: str | None) -> Problem:
    """Replace the problem's prompt by the saved prompt. The saved prompt matters for verification, since its end may
    open a reasoning block.

    If the dump has only the question instead of the prompt, the end of the prompt is unknown, and the problem is
    returned unchanged.
    """
    return problem.prompted(prompt) if prompt and prompt.strip() not in problem.prompt else problem


def _chosen(run: RunData) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the last step's rollouts, except those that continue a prefix of another rollout, and notes on skipped
    rollouts. If there are evaluations, training rollouts are skipped."""
    evaluated = "split IN ('evaluate', 'greedy')"
    if not run.query(f"SELECT count(*) AS n FROM rollouts WHERE {evaluated}")["n"][0]:
        evaluated = "true"
    last = f"{evaluated} AND step = (SELECT max(step) FROM rollouts WHERE {evaluated})"
    records = run.db.execute(
        f"SELECT {', '.join(PLAIN.names)} FROM rollouts WHERE {last} AND parent IS NULL"
    ).fetchall()
    rows = [dict(zip(PLAIN.names, row, strict=True)) for row in records]
    others = int(run.query("SELECT count(*) AS n FROM rollouts")["n"][0]) - len(rows)
    notes = [f"{others} rollouts of other steps or splits, or branches, were skipped."] if others else []
    return rows, notes


def _matching_notes(rows: Sequence[Any], taken: Sequence[Any], match: Matcher) -> list[str]:
    notes = []
    if len(taken) < len(rows):
        notes.append(f"{len(rows) - len(taken)} of {len(rows)} responses belong to no problem of the task: excluded.")
    if match.counts["within"]:
        notes.append(f"{match.counts['within']} problems were matched because the prompt contains their question.")
    return notes


def _disagreements(before: Sequence[str | None], verdicts: Sequence[Verdict]) -> list[str]:
    """Return a note about how the verdicts in the file differ from the new verdicts."""
    known = [(old == Outcome.CORRECT, new.success) for old, new in zip(before, verdicts, strict=True) if old]
    if not known:
        return []
    lost, won = known.count((True, False)), known.count((False, True))
    return [
        f"Of {len(known)} verdicts in the file, {len(known) - lost - won} agree with the verifier here; {lost} are "
        f"correct only in the file, {won} only here."
    ]


def _truncated(row: Mapping[str, Any]) -> bool:
    return row["stop"] is not None and StopReason(row["stop"]).truncates


def _apart(taken: Sequence[tuple[Mapping[str, Any], Problem]], notes: list[str]) -> bool:
    """Return whether responses to the same problem have different difficulty levels in the saved generations. Responses
    with a model name are ignored."""
    levels: dict[str, set[str]] = {}
    for row, problem in taken:
        if row["model"] is None:
            levels.setdefault(problem.id, set()).add(row["level"] or "")
    several = any(len(one) > 1 for one in levels.values())
    if several:
        notes.append("One problem has responses of several levels of the file; the levels are scored separately.")
    return several


def _table(taken: Sequence[tuple[Mapping[str, Any], Problem]], verdicts: Sequence[Verdict], apart: bool) -> pa.Table:
    members: Counter[tuple[str, str]] = Counter()
    rows = []
    for (row, problem), verdict in zip(taken, verdicts, strict=True):
        split = "greedy" if row["split"] == "greedy" else "evaluate"
        level = (row["level"] or "") if apart else problem.level
        name = "/".join(filter(None, [row["model"], level if apart else "", problem.id]))
        identity = {"problem_id": name, "group_id": f"{split}:{name}", "member": members[split, name]}
        members[split, name] += 1
        verified = {key: getattr(verdict, key) for key in ("answer", "detail", "seconds")}
        labels = {"level": level, "test_set": problem.test_set or None}
        results = {"outcome": verdict.outcome.value, "reward": verdict.score}
        rows.append({**row, "split": split, "step": 0, **identity, **labels, **verified, **results})
    return pa.Table.from_pylist(rows, PLAIN)
