"""``outrider.score``, a Python function that computes verdicts and pass@k for saved generations, without a model."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.api.rows import table_of
from outrider.api.task_argument import task_of
from outrider.config import load_options
from outrider.config.score import Score

if TYPE_CHECKING:
    from outrider.score.score import Scored


def score(
    generations: Any,
    task: Any,
    *,
    problems: int | None = None,
    columns: Mapping[str, str] | None = None,
    out: str | Path | None = None,
) -> Scored:
    """Verify saved generations with a task's verifier. Return verdicts, and pass@k and majority vote with confidence
    intervals.

    The command ``outrider score`` calls the same code.

    Args:
        generations: a run folder, a file or folder of another framework, or rows in memory (a list of dicts, a pandas
            or polars frame, or a ``datasets.Dataset``).
        task: a task object, or what a recipe would contain under ``task``, such as ``"countdown"`` or ``{"table":
            {…}}``.
        problems: number of held-out problems; None: all of a data set, or 300 if the task generates its problems.
        columns: map from Outrider's column names to the fields of the rows, such as ``{"problem": "prompt", "text":
            "response"}``.
        out: folder for the verdicts, the metrics and a table of the results, which ``outrider.report`` can read; None:
            no files are written.

    Raises:
        UserError: an argument is invalid, no generation can be read, or no generation belongs to a problem of the task.

    >>> import outrider, tempfile
    >>> from pathlib import Path
    >>> rows = [{"question": "1+1", "response": "so 2"}, {"question": "1+1", "response": "3"}]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = Path(folder) / "gold.jsonl"
    ...     _ = table.write_text('{"problem": "1+1", "answer": "2"}')
    ...     task = {"table": {"heldout_data": str(table), "prompt": "{problem}", "verifier": "number"}}
    ...     found = outrider.score(rows, task, columns={"problem": "question", "text": "response"})
    >>> found.evaluation.overall.pass_at[1].value
    0.5
    """
    from outrider.score.score_command import score_file  # imported here, since it imports DuckDB and pyarrow

    data = {"task": task_of(task)} | ({} if problems is None else {"problems": problems})
    options = load_options(Score, data, [], "score")
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(table_of(generations, Path(scratch), "generations"))
        kept = None if out is None else Path(out)
        found = score_file(place, options.task, options.problems, columns or {}, kept)[1]
        return found._replace(notes=[note.replace(str(place), "generations") for note in found.notes])
