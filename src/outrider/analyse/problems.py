"""Finds the problems that belong to the rollouts of a run, since stored rollouts contain only problem ids."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from outrider.config.train import EvaluateOptions
from outrider.errors import UserError
from outrider.record import Problem
from outrider.runs.checkpoint import checkpoints
from outrider.runs.folder import RunFolder
from outrider.tasks.task import Task

BEYOND = 10_000
"""Number of problems to search in the training stream beyond its position at the newest checkpoint."""


def problems_of(run: Path, task: Task, evaluate: EvaluateOptions, split: str, ids: Iterable[str]) -> dict[str, Problem]:
    """Return the problems with these ids. If ``split`` is ``evaluate`` or ``greedy``, search the held-out problems;
    otherwise, search the training problems.

    Raises:
        UserError: the task has no problem with one of the ids, so the rollouts are from another task.
    """
    missing = set(ids)
    results: dict[str, Problem] = {}
    heldout = split in ("evaluate", "greedy")
    if heldout:
        looked: Iterable[Problem] = task.heldout(evaluate.skip + evaluate.problems)
    else:
        looked = map(task.train, range(_position(run) + BEYOND))
    for problem in looked:
        if problem.id in missing:
            missing.remove(problem.id)
            results[problem.id] = problem
        if not missing:
            return results
    side = "held-out" if heldout else "training"
    raise UserError(
        f"{len(missing)} problems of {run}, such as {min(missing)!r}, are not among the {side} problems of task "
        f"{task.name!r}, so their responses cannot be verified"
    )


def _position(run: Path) -> int:
    """Return the index of the next training problem at the run's newest checkpoint; 0 if the index is unknown."""
    kept = checkpoints(RunFolder(run).checkpoints)
    try:
        state = json.loads((kept[max(kept)] / "state.json").read_bytes()) if kept else {}
        return int(state["explorer"]["stream"]["position"]) if kept else 0
    except (OSError, ValueError, KeyError):
        return 0
