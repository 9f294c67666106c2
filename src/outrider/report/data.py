"""The rollouts and metrics of one run, for queries."""

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

# SQL: rollouts that a limit has ended; null where that is not known.
CUT = f"stop IN ({', '.join(repr(stop.value) for stop in StopReason if stop.truncates)})"

Columns = dict[str, NDArray[Any]]
Place = tuple[int, str, int]  # step, id of a rollout, own tokens before the place

# SQL: rollouts that are samples of the policy. The stage `greedy` adds the most likely response, a yardstick; on record
# it is recognised by the stage's name, "<place>-greedy".
SAMPLED = "NOT suffix(stage, '-greedy')"


@dataclass(frozen=True, eq=False)
class RunData:
    """One run, or a dump of rollouts, with a relation ``rollouts`` for SQL.

    Attributes:
        name: what the page calls it.
        db: a DuckDB connection of its own; ``rollouts`` has the columns of ``importers.plain.PLAIN``. A run of
            Outrider also has ``traces``, for questions about few steps that ``rollouts`` would answer by reading all:
            ``step, split, problem_id, stage, parent, branch_at, outcome, stop, text, entropies, logprobs``, a list of
            one number per own token in the last two. Look for it with :meth:`has`.
        config: the resolved recipe; empty where rollouts are all there is.
        metrics: ``metrics.jsonl`` as columns, one entry a step, NaN where a step does not have the key.
        evaluations: by step; step 0 is the policy before training.
        models: the last evaluation of each model, by name, of a dump of evaluations that holds several. Problems have
            the same ids in each, which begin with the model in ``rollouts``.
        notices: one sentence for everything that could not be read.
        prompts: texts by problem id where the column ``prompt`` is null; those that cannot be had are excluded.
        beginnings: for places in rollouts (step, id, own tokens before it), the text of those tokens; where it cannot
            be had, nothing.
        observed: for steps and ids of rollouts, what environments said in their texts; those without are excluded.
        folder: where the run lies; None for a file and for a table in memory.
        numbers: the relation to ask for everything but ``text``, ``prompt``, ``answer`` and ``detail``, which may be
            faster than ``rollouts``.
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
        """A run from a plain table in memory: an import, or a test."""
        db = duckdb.connect()
        db.register("rollouts", rollouts)
        return RunData(name, db, config or {}, metrics or {}, evaluations or {})

    def query(self, sql: str, values: Sequence[Any] = ()) -> Columns:
        """The result of a query as columns; null is NaN in a column of numbers and None in one of text."""
        columns = self.db.execute(sql, list(values)).fetchnumpy()
        return {name: _filled(column) for name, column in columns.items()}

    def has(self, relation: str) -> bool:
        """Whether there is a table or view of that name."""
        with self.db.cursor() as cursor:  # of its own: pages of a viewer ask in threads
            found = cursor.execute("SELECT count(*) FROM information_schema.tables WHERE table_name = ?", [relation])
            return bool(found.fetchall()[0][0])


def _filled(column: Any) -> NDArray[Any]:
    if not isinstance(column, np.ma.MaskedArray):
        return np.asarray(column)
    # nulls come as a masked array; integers become float64, since only floats have NaN
    text = column.dtype.kind == "O"
    values: NDArray[Any] = np.array(column.data, dtype=object if text else np.float64)
    values[np.ma.getmaskarray(column)] = None if text else np.nan
    return values
