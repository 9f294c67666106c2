"""``outrider score``: verifies a file of generations, prints a table of the results and saves the verdicts."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
from rich.console import Console

from outrider.config.train import EvaluateOptions
from outrider.errors import UserError
from outrider.measure.table import as_markdown, as_table
from outrider.record.disk import write_atomically
from outrider.report.opened import open_any
from outrider.score.score import Scored, score
from outrider.tasks import Suite, Table, Task


def score_command(
    path: Path, task: Task, problems: int | None, columns: Mapping[str, str], out: Path | None, console: Console
) -> int:
    """Score a file or folder with :func:`score_file`, and print the notes and the table of scores."""
    name, scored = score_file(path, task, problems, columns, out)
    for sentence in scored.notes:
        console.print(sentence, soft_wrap=True, markup=False, highlight=False)
    for model, evaluation in (scored.models or {"": scored.evaluation}).items():
        Console().print(as_table(evaluation, title=f"{model or name} on {task.name}"))
    return 0


def score_file(
    path: Path, task: Task, problems: int | None, columns: Mapping[str, str], out: Path | None
) -> tuple[str, Scored]:
    """Score a file or folder of generations. If ``out`` is given, write rollouts and results to this folder.

    If ``problems`` is None, all held-out problems of a data set are used. For a task that generates its problems, the
    default number of problems in an evaluation is used.

    ``outrider report`` and ``outrider compare`` can read the folder ``out``.

    Raises:
        UserError: no generation can be read or matched to a problem, or ``out`` is not empty.
    """
    if out is not None and out.exists() and any(out.iterdir()):
        raise UserError(f"{out} is not empty; choose a new folder")
    run = open_any(path, columns)
    try:
        scored = score(run, task, task.heldout(_all(task) if problems is None else problems))
    finally:
        task.close()
        run.db.close()
    scored = scored._replace(notes=[*run.notices, *scored.notes])
    if out is not None:
        (out / "evaluations").mkdir(parents=True, exist_ok=True)
        pq.write_table(scored.rollouts, out / "scored.parquet")
        data = json.dumps(scored.evaluation.to_json(), allow_nan=False)
        write_atomically(out / "evaluations" / "step-00000000.json", data.encode())
        write_atomically(out / "table.md", as_markdown(scored.evaluation).encode())
    return run.name, scored


def _all(task: Task) -> int:
    return sys.maxsize if isinstance(task, Table | Suite) else EvaluateOptions().problems
