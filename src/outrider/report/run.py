"""Opens a run on disk as a :class:`RunData`, which reads data only when a query needs them."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from itertools import count
from pathlib import Path
from typing import Any, Literal, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from outrider.config.older import config_of_run
from outrider.config.yaml_data import read_yaml
from outrider.errors import UserError
from outrider.importers.plain import PLAIN
from outrider.measure import Evaluation
from outrider.record.store import READ, SCHEMA, VERSIONS
from outrider.report.data import Columns, RunData
from outrider.report.run_texts import beginnings_of, observed_in, prompts_of_run
from outrider.runs.folder import RunFolder

MEMORY = "1GB"  # DuckDB's memory limit; DuckDB writes larger data to the temporary folder
_CONNECTIONS = count()
_VERSION = b"outrider.schema_version"

# SQL of the PLAIN columns that an Outrider run stores under another name or has to compute. Observed tokens (written by
# an environment) are excluded from the token count and from the policy's mean entropy and log-probability.
_OBSERVED = "coalesce(len([sampled for sampled in trainable if NOT sampled]), 0)"
_SAMPLED_OF = "CASE WHEN trainable IS NULL THEN {0} ELSE list_where({0}, trainable) END"
_COMPUTED = {
    "split": r"regexp_extract(filename, '([a-z][a-z0-9_-]*)-\d+\.parquet$', 1)",
    "context": "context_kind",
    "prompt": "NULL",
    "tokens": f"len(token_ids) - {_OBSERVED}",
    "observed": _OBSERVED,
    "entropy": f"list_avg({_SAMPLED_OF.format('entropies')})",
    "logprob": f"list_avg({_SAMPLED_OF.format('logprobs')})",
}
_OF_OBSERVATIONS = {  # defined as in Rollout.turns
    "turns": f"CASE WHEN len(token_ids) = {_OBSERVED} THEN 0 ELSE 1 + len("
    "[one.at for one in observations if one.at > 0 AND one.at + one.tokens < len(token_ids)]) END",
    "turn_errors": "len([one.error for one in observations if one.error])",
}
_TEXTS = ("text", "prompt")  # columns that stay on disk when numbers are read into memory
_KEY = "(file_index << 32) | file_row_number"


class _Files(NamedTuple):
    kind: Literal["run", "plain"]
    paths: list[Path]


def open_run(path: str | Path) -> RunData:
    """Open a run folder, a folder of Parquet files, or one Parquet file.

    A run folder is the output of ``outrider train`` or ``outrider evaluate --out``. The run may still be in progress.
    Other Parquet files must have the columns of ``importers.plain.PLAIN``; nullable columns may be missing. This
    function reads only file footers. A column is read only when a query needs it, so a query about steps never reads
    tokens.

    A damaged file or a file of another format is skipped. A sentence in ``notices`` then names the file, and says how
    many files are read. Damage in the middle of a file is found only when the whole file is read: see :func:`gather`.

    Raises:
        UserError: ``path`` does not exist, or no file at ``path`` can be read.
    """
    return _opened(Path(path), _connect())


def reopened(run: RunData, path: Path) -> RunData:
    """Reopen the run at ``path`` in its current state, on the database connection of ``run``. Tables that do not belong
    to the run stay on the connection.

    Raises:
        UserError: see :func:`open_run`.
    """
    return _opened(path, run.db)


def _opened(path: Path, db: duckdb.DuckDBPyConnection) -> RunData:
    notices: list[str] = []
    files = _files(path, notices)
    _create_views(db, files)
    name = named(path)
    if path.is_file():
        return RunData(name, db, notices=notices)
    folder = RunFolder(path)
    tokenizer = path / "model" / "tokenizer.json" if files.kind == "run" else None
    metrics = _or_notice(notices, {}, lambda: columns(folder.metrics()))
    if replayed := sum(int(np.nansum(metrics[name])) for name in metrics if name.endswith("-replay/replayed")):
        notices.append(
            f"{replayed:,} replayed rollouts were trained on; all numbers here, weights of groups "
            "included, exclude them"
        )
    return RunData(
        name,
        db,
        config=_or_notice(notices, {}, lambda: _config(folder.config)),
        metrics=metrics,
        evaluations=_evaluations(path / "evaluations", notices),
        notices=notices,
        prompts=partial(prompts_of_run, db, tokenizer),
        beginnings=partial(beginnings_of, db, tokenizer),
        observed=partial(observed_in, db),
        folder=path,
    )


def named(path: Path) -> str:
    """Return a run's name: the folder's name, with the parent folder's name in front if the folder's name is only a
    number."""
    path = path.resolve()
    name = path.stem if path.is_file() else path.name
    return f"{path.parent.name}/{name}" if name.isdecimal() else name


def is_run(path: Path) -> bool:
    """Whether :func:`open_run` can open a path: a run folder, a Parquet file with Outrider's rollout columns, or a
    folder of such files."""
    if path.is_file():
        return _kind(path) in ("run", "plain")
    rollouts = path / "rollouts"  # other frameworks also have a folder of this name, with JSON Lines
    begun = rollouts.is_dir() and (any(rollouts.glob("*.parquet")) or not any(rollouts.iterdir()))
    inside = begun or (path / "config.yaml").is_file()
    return inside or any(_kind(file) in ("run", "plain") for file in path.glob("[!.]*.parquet"))


def gather(run: RunData) -> RunData:
    """Read all rollout columns except the texts of prompts and responses into memory once, for faster queries.

    The relation ``rollouts`` keeps its columns and rows. Columns that need a pass over all tokens (``tokens``,
    ``entropy``, ``logprob``) are computed once and stored. For a table in memory, this function has no effect.

    A file with damage in the middle is skipped, and a sentence about it is added to ``notices``.

    Returns:
        the run; its attribute ``numbers`` is the name of the table in memory.

    Raises:
        UserError: every file is damaged.
    """
    if run.has("gathered") or not run.has("files"):
        return numbers_gathered(run)
    run = numbers_gathered(run)
    # texts are joined back by row_key and read only by queries that name them
    texts = ", ".join(f"on_disk.{name} AS {name}" if name in _TEXTS else f"gathered.{name}" for name in PLAIN.names)
    run.db.execute(
        f"CREATE OR REPLACE VIEW rollouts AS SELECT {texts} FROM gathered "
        f"JOIN (SELECT row_key, {', '.join(_TEXTS)} FROM rollouts_on_disk) AS on_disk USING (row_key)"
    )
    return run


def numbers_gathered(run: RunData) -> RunData:
    """Read the table ``run.numbers`` (the columns without long texts) into memory. ``rollouts`` is still read from
    disk, so queries for texts need no join.

    Raises:
        UserError: every file is damaged.
    """
    if not run.has("files"):
        return run
    if not run.has("gathered"):
        names = ", ".join(name for name in PLAIN.names if name not in _TEXTS)
        create = f"CREATE TABLE gathered AS SELECT row_key, {names} FROM rollouts_on_disk"
        try:
            run.db.execute(create)
        except duckdb.Error:
            _leave_out_damaged(run)
            run.db.execute(create)
    return replace(run, numbers="gathered")


def rows_of_files(run: RunData, files: Sequence[str], columns: Sequence[str]) -> str:
    """Return SQL that reads only from ``files``. It selects the given columns of ``PLAIN``, together with ``filename``
    and ``file_row_number``.

    In a run with a thousand files, a query for a few rollouts would otherwise spend half a second on the other files.
    """
    kind = "run" if run.has("traces") else "plain"
    source = f"read_parquet([{quoted(files)}], union_by_name = true, filename = true, file_row_number = true)"
    there = {row[0] for row in run.db.cursor().execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
    values = ", ".join(_expression(PLAIN.field(name), kind, there) for name in columns)
    return f"SELECT filename, file_row_number, {values} FROM {source}"


def quoted(paths: Iterable[Path | str]) -> str:
    """Return paths as a comma-separated list of SQL strings."""
    return ", ".join("'" + str(path).replace("'", "''") + "'" for path in paths)


def _leave_out_damaged(run: RunData) -> None:
    """Recreate the views from the files that can be read completely."""
    paths = [Path(row[0]) for row in run.db.execute("SELECT DISTINCT filename FROM files ORDER BY 1").fetchall()]
    kind: Literal["run", "plain"] = "run" if run.has("traces") else "plain"
    whole = []
    for path in paths:
        probe = _connect()
        try:
            _create_views(probe, _Files(kind, [path]))
            # the cheapest query that reads every value, which is the only way to find damage in the middle of a file
            probe.execute("SELECT max(hash(row)) FROM rollouts_on_disk AS row").fetchall()
            whole.append(path)
        except duckdb.Error as error:
            run.notices.append(f"{path} was skipped: it is damaged ({str(error).splitlines()[0][:120]})")
        finally:
            probe.close()
    if not whole:
        raise UserError(f"nothing of {run.name} can be read; {run.notices[-1]}")
    _create_views(run.db, _Files(kind, whole))


def columns(rows: Sequence[Mapping[str, float]]) -> Columns:
    """Convert rows to columns; if a row lacks a key, the value is NaN.

    >>> columns([{"step": 1, "reward": 0.5}, {"step": 2}])["reward"].tolist()
    [0.5, nan]
    """
    keys = dict.fromkeys(key for row in rows for key in row)
    return {key: np.array([row.get(key, np.nan) for row in rows], dtype=np.float64) for key in keys}


def _files(path: Path, notices: list[str]) -> _Files:
    """Return the readable Parquet files at ``path`` in order, and add a notice for each unreadable file. If some files
    belong to a run, all other files are skipped with a notice."""
    result = _rollout_files(path)
    kinds: dict[Path, str] = {}
    for file in result:
        kind = _kind(file)
        if kind in ("run", "plain"):
            kinds[file] = kind
        else:
            notices.append(f"{file} was skipped: {kind}")
    if result and not kinds:
        raise UserError(f"nothing at {path} can be read; {notices[0]}")
    runs, plain = ([file for file in kinds if kinds[file] == kind] for kind in ("run", "plain"))
    if runs and plain:
        notices += [
            f"{file} was skipped: it holds plain rollouts, while the other files belong to a run" for file in plain
        ]
    if notices:
        notices[:] = [f"{sentence} ({len(runs or plain)} of {len(result)} files are read)" for sentence in notices]
    return _Files("run", runs) if runs or not plain else _Files("plain", plain)


def _rollout_files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.exists():
        raise UserError(f"there is nothing at {path}")
    rollouts = path / "rollouts"
    files = sorted((rollouts if rollouts.is_dir() else path).glob("[!.]*.parquet"))
    if not files and not (path / "config.yaml").is_file():
        raise UserError(f"{path} is neither a run folder nor has Parquet files with rollouts")
    return files


def _kind(path: Path) -> str:
    """Return "run" for a file that a run wrote, "plain" for another table with Outrider's columns, or a sentence that
    says why the file is neither."""
    try:
        found = path.stat()
    except OSError as error:
        return f"it is not a complete Parquet file ({error.strerror})"
    return _kind_of(path, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=100_000)
def _kind_of(path: Path, size: int, changed: int) -> str:
    """Return a file's kind, cached until the file changes, since a viewer polls runs with thousands of files."""
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        return f"it is not a complete Parquet file ({str(error).splitlines()[0][:120]})"
    version = (schema.metadata or {}).get(_VERSION)
    if version is not None:
        text = version.decode("utf-8", "replace")
        if text not in VERSIONS:
            return f"it has rollout schema version {text}, and this Outrider reads {READ}"
        missing = [name for name in SCHEMA.names if name not in schema.names and name not in VERSIONS[text]]
        return f"it has no column {missing[0]}" if missing else "run"
    missing = [f.name for f in PLAIN if not f.nullable and f.name not in schema.names]
    return f"it has no plain rollouts (missing columns: {', '.join(missing)})" if missing else "plain"


def _connect() -> duckdb.DuckDBPyConnection:
    # one folder per connection, since older DuckDB versions reuse file names; DuckDB removes the folder
    spill = Path(tempfile.gettempdir()) / f"outrider-{os.getpid()}-{next(_CONNECTIONS)}"
    threads = len(os.sched_getaffinity(0))
    db = duckdb.connect(config={"threads": threads, "memory_limit": MEMORY, "temp_directory": str(spill)})
    # the progress bar would appear among printed lines; in a notebook without ipywidgets there is no progress bar, and
    # DuckDB rejects the setting
    with suppress(duckdb.InvalidInputException):
        db.execute("SET enable_progress_bar = false")
    return db


def _create_views(db: duckdb.DuckDBPyConnection, files: _Files) -> None:
    """Create the views ``files`` (all columns), ``rollouts`` (columns of PLAIN) and ``traces`` (numbers per token)."""
    if not files.paths:
        for view in ("traces", "rollouts_on_disk", "files"):  # may exist if a run's files have all been removed
            db.execute(f"DROP VIEW IF EXISTS {view}")
        db.register("no_rollouts", PLAIN.empty_table())
        db.execute("CREATE OR REPLACE TEMP VIEW rollouts AS SELECT * FROM no_rollouts")
        return
    # a file gets its final name when it is complete and never changes, so its footer needs to be read only once
    db.execute("SET parquet_metadata_cache = true")
    paths = quoted(files.paths)
    # replayed rollouts were sampled from an earlier policy and would be counted as this step's
    drawn = "WHERE context_kind <> 'replayed'" if files.kind == "run" else ""
    db.execute(
        f"CREATE OR REPLACE VIEW files AS SELECT *, filename, file_row_number, {_KEY} AS row_key "
        # a run that continued after an update has files of several schema versions
        f"FROM read_parquet([{paths}], union_by_name = true) {drawn}"
    )
    there = {row[0] for row in db.execute("DESCRIBE files").fetchall()}
    plain = ", ".join(_expression(field, files.kind, there) for field in PLAIN)
    db.execute(
        f"CREATE OR REPLACE VIEW rollouts_on_disk AS SELECT row_key, filename, file_row_number, {plain} FROM files"
    )
    places = "row_key, filename, file_row_number"
    db.execute(f"CREATE OR REPLACE VIEW rollouts AS SELECT * EXCLUDE ({places}) FROM rollouts_on_disk")
    if files.kind == "run":
        split = _COMPUTED["split"]
        db.execute(
            f"CREATE OR REPLACE VIEW traces AS SELECT step, {split} AS split, problem_id, stage, parent, branch_at, "
            f"outcome, stop, text, {_SAMPLED_OF.format('entropies')} AS entropies, "
            f"{_SAMPLED_OF.format('logprobs')} AS logprobs FROM files"
        )


def _expression(field: pa.Field, kind: str, there: Iterable[str]) -> str:
    known = field.name if field.name in there else "NULL"
    computed = _COMPUTED | (_OF_OBSERVATIONS if "observations" in there else {})
    value = computed.get(field.name, known) if kind == "run" else known
    names = {pa.string(): "VARCHAR", pa.int32(): "INTEGER", pa.int64(): "BIGINT", pa.float64(): "DOUBLE"}
    return f"CAST({value} AS {names[field.type]}) AS {field.name}"


def _or_notice(notices: list[str], otherwise: Any, read: Callable[[], Any]) -> Any:
    """Return the result of ``read``; if it raises UserError, add a notice and return ``otherwise``."""
    try:
        return read()
    except UserError as error:
        notices.append(str(error))
        return otherwise


def _config(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    data = read_yaml(path.read_text("utf-8", "replace"), str(path))
    # without external components, since a report does not execute a run's own code
    return config_of_run(data, outside=False) if isinstance(data, dict) else {}


def _evaluations(folder: Path, notices: list[str]) -> dict[int, Evaluation]:
    results = {}
    for path in sorted(folder.glob("step-*.json")):
        try:
            results[int(path.stem.removeprefix("step-"))] = Evaluation.from_json(json.loads(path.read_bytes()))
        except (ValueError, UserError) as error:
            notices.append(f"{path} was skipped: {error}")
    return results
