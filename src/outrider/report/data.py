"""Holds the rollouts and metrics of one run for queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from outrider.measure import Evaluation
from outrider.record import StopReason
from outrider.report.content import Observed

# SQL condition: a limit truncated the rollout. The condition is null if the stop reason is unknown.
CUT = f"stop IN ({', '.join(repr(stop.value) for stop in StopReason if stop.truncates)})"

Columns = dict[str, NDArray[Any]]
Place = tuple[int, str, int]  # step, rollout id, number of the rollout's own tokens before the place

# SQL condition: the rollout was sampled from the policy. The stage `greedy` adds a greedily decoded response as a
# baseline, which is recorded under the stage name "<place>-greedy".
SAMPLED = "NOT suffix(stage, '-greedy')"


@dataclass(frozen=True, eq=False)
class RunData:
    """One run, or the rollout files of another framework (a dump). SQL queries read its rollouts from the relation
    ``rollouts``.

    Attributes:
        name: name of the run on the page.
        db: DuckDB connection of this run; ``rollouts`` has the columns of ``importers.plain.PLAIN``. An Outrider run
            also has the relation ``traces``, which answers queries about a few steps without scanning all rollouts. Its
            columns are ``step, split, problem_id, stage, parent, branch_at, outcome, stop, text, entropies, logprobs``;
            ``entropies`` and ``logprobs`` are lists with one number per token of ``text``. :meth:`has` returns whether
            ``traces`` exists.
        config: the resolved recipe; empty if only rollouts are known.
        metrics: ``metrics.jsonl`` as columns with one entry per step; NaN if a step lacks the key.
        evaluations: evaluations, keyed by step; step 0 is the policy before training.
        models: last evaluation of each model, keyed by model name; empty unless the rollouts come from several models.
            In ``rollouts``, a problem's id begins with the model's name; in these evaluations, it does not.
        notices: sentences about how the files were read, for example one for each file that could not be read.
        prompts: function that returns the available prompt texts, keyed by problem id, for runs whose column ``prompt``
            is null.
        beginnings: function that returns the text of the first ``n`` tokens of rollouts, keyed by (step, rollout id,
            n). A branch's tokens are counted after its prefix. Rollouts whose text is unavailable are skipped.
        observed: function that returns the ranges of text that environments wrote, keyed by step and rollout id;
            rollouts without such ranges are skipped.
        folder: folder of the run; None for a file or a table in memory.
        numbers: name of a relation with the columns of ``rollouts``; ``text``, ``prompt``, ``answer`` and ``detail``
            may be missing. Queries on this relation may be faster than on ``rollouts``.
    """

    name: str
    db: duckdb.DuckDBPyConnection
    config: Mapping[str, Any] = field(default_factory=dict)
    metrics: Columns = field(default_factory=dict)
    evaluations: Mapping[int, Evaluation] = field(default_factory=dict)
    models: Mapping[str, Evaluation] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    prompts: Callable[[Sequence[str]], Mapping[str, str]] = lambda _: {}
    beginnings: Callable[[Sequence[Place]], Mapping[Place, str]] = lambda _: {}
    observed: Callable[[Sequence[tuple[int, str]]], Mapping[tuple[int, str], list[Observed]]] = lambda _: {}
    folder: Path | None = None
    numbers: str = "rollouts"

    @staticmethod
    def of(
        name: str,
        rollouts: pa.Table,
        config: Mapping[str, Any] | None = None,
        metrics: Columns | None = None,
        evaluations: Mapping[int, Evaluation] | None = None,
    ) -> RunData:
        """Return a run from a plain table in memory, as created by importers and tests."""
        db = duckdb.connect()
        db.register("rollouts", rollouts)
        return RunData(name, db, config or {}, metrics or {}, evaluations or {})

    def query(self, sql: str, values: Sequence[Any] = ()) -> Columns:
        """Return a query's result as columns; null becomes NaN in a numeric column and None in a text column."""
        columns = self.db.execute(sql, list(values)).fetchnumpy()
        return {name: _filled(column) for name, column in columns.items()}

    def has(self, relation: str) -> bool:
        """Whether a table or view with the name ``relation`` exists."""
        with self.db.cursor() as cursor:  # a separate cursor, since the viewer queries from several threads
            found = cursor.execute("SELECT count(*) FROM information_schema.tables WHERE table_name = ?", [relation])
            return bool(found.fetchall()[0][0])


def _filled(column: Any) -> NDArray[Any]:
    if not isinstance(column, np.ma.MaskedArray):
        return np.asarray(column)
    # a column with nulls is a masked array; integers become float64, since only floats have NaN
    text = column.dtype.kind == "O"
    values: NDArray[Any] = np.array(column.data, dtype=object if text else np.float64)
    values[np.ma.getmaskarray(column)] = None if text else np.nan
    return values
