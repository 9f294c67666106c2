"""A run on disk as a :class:`RunData`, which reads data only when a query needs them."""

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

MEMORY = "1GB"  # of DuckDB; what does not fit goes to the temporary folder
_CONNECTIONS = count()
_VERSION = b"outrider.schema_version"

# The columns of PLAIN that a run of Outrider has under another name, or has to compute. Observed tokens (what an
# environment said) cost nothing, and have neither an entropy nor a log-probability of the policy's choosing.
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
_OF_OBSERVATIONS = {  # as Rollout.turns has it
    "turns": f"CASE WHEN len(token_ids) = {_OBSERVED} THEN 0 ELSE 1 + len("
    "[one.at for one in observations if one.at > 0 AND one.at + one.tokens < len(token_ids)]) END",
    "turn_errors": "len([one.error for one in observations if one.error])",
}
_TEXTS = ("text", "prompt")  # stay on disk when numbers are gathered
_KEY = "(file_index << 32) | file_row_number"


class _Files(NamedTuple):
    kind: Literal["run", "plain"]
    paths: list[Path]


def open_run(path: str | Path) -> RunData:
    """The run in a folder, a folder of Parquet files, or one Parquet file.

    A run folder is read as ``outrider train`` and ``outrider evaluate --out`` leave it, also while it is being written.
    Other Parquet files must be of the plain form: the columns of ``importers.plain.PLAIN``, of which those that may be
    null may be missing. Only the ends of files are read here; a column is read when a query needs it, so a question
    about steps never touches tokens.

    A file that is damaged or foreign is excluded; ``notices`` names it and says how many others are read. Damage in the
    middle of a file shows when it is read: see :func:`gather`.

    Raises:
        UserError: there is nothing at ``path``, or none of it can be read.
    """
    return _opened(Path(path), _connect())


def reopened(run: RunData, path: Path) -> RunData:
    """The run at ``path`` as it is now, on the connection of ``run``, whose other tables stay.

    Raises:
        UserError: as in :func:`open_run`.
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
    """The name of the run at a path: the last part of it that is not just a number."""
    path = path.resolve()
    name = path.stem if path.is_file() else path.name
    return f"{path.parent.name}/{name}" if name.isdecimal() else name


def is_run(path: Path) -> bool:
    """Whether :func:`open_run` can open a path: a run folder, or rollouts of the plain form."""
    if path.is_file():
        return _kind(path) in ("run", "plain")
    rollouts = path / "rollouts"  # other frameworks have a folder of this name, with JSON lines
    begun = rollouts.is_dir() and (any(rollouts.glob("*.parquet")) or not any(rollouts.iterdir()))
    inside = begun or (path / "config.yaml").is_file()
    return inside or any(_kind(file) in ("run", "plain") for file in path.glob("[!.]*.parquet"))


def gather(run: RunData) -> RunData:
    """Read the numbers of every rollout once, for many queries to come; texts stay on disk.

    ``rollouts`` has the same columns and rows afterwards. What took a pass over all tokens (``tokens``, ``entropy``,
    ``logprob``) is then a stored number. Does nothing for a table in memory.

    A file that turns out to be damaged within is excluded, with one more of ``notices``.

    Returns:
        the run, whose ``numbers`` are the stored ones.

    Raises:
        UserError: no file is whole.
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
    """The run with stored ``numbers``; its ``rollouts`` are still read from disk, so that a question about texts joins
    nothing.

    Raises:
        UserError: no file is whole.
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
    """SQL for some columns of ``PLAIN`` of these files alone, with ``filename`` and ``file_row_number``.

    A question about few rollouts of a run of a thousand files would take half a second for the others.
    """
    kind = "run" if run.has("traces") else "plain"
    source = f"read_parquet([{quoted(files)}], union_by_name = true, filename = true, file_row_number = true)"
    there = {row[0] for row in run.db.cursor().execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
    values = ", ".join(_expression(PLAIN.field(name), kind, there) for name in columns)
    return f"SELECT filename, file_row_number, {values} FROM {source}"


def quoted(paths: Iterable[Path | str]) -> str:
    """Paths as a list of SQL."""
    return ", ".join("'" + str(path).replace("'", "''") + "'" for path in paths)


def _leave_out_damaged(run: RunData) -> None:
    """Point the views at those files that can be read to their ends."""
    paths = [Path(row[0]) for row in run.db.execute("SELECT DISTINCT filename FROM files ORDER BY 1").fetchall()]
    kind: Literal["run", "plain"] = "run" if run.has("traces") else "plain"
    whole = []
    for path in paths:
        probe = _connect()
        try:
            _create_views(probe, _Files(kind, [path]))
            # the cheapest query that reads every value: damage in the middle of a file shows only then
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
    """Rows with some keys each as columns: NaN where a row has no such key.

    >>> columns([{"step": 1, "reward": 0.5}, {"step": 2}])["reward"].tolist()
    [0.5, nan]
    """
    keys = dict.fromkeys(key for row in rows for key in row)
    return {key: np.array([row.get(key, np.nan) for row in rows], dtype=np.float64) for key in keys}


def _files(path: Path, notices: list[str]) -> _Files:
    """Readable Parquet files of one kind, in order; a sentence for each of the others."""
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
    """``run`` or ``plain``, or why it is neither."""
    try:
        found = path.stat()
    except OSError as error:
        return f"it is not a complete Parquet file ({error.strerror})"
    return _kind_of(path, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=100_000)
def _kind_of(path: Path, size: int, changed: int) -> str:
    """The same of a file that has not changed since: a viewer looks again and again, and a run may have thousands."""
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
    # A folder for each connection, since older versions of DuckDB give their files equal names; DuckDB removes it.
    spill = Path(tempfile.gettempdir()) / f"outrider-{os.getpid()}-{next(_CONNECTIONS)}"
    threads = len(os.sched_getaffinity(0))
    db = duckdb.connect(config={"threads": threads, "memory_limit": MEMORY, "temp_directory": str(spill)})
    # without ipywidgets DuckDB refuses the setting in a notebook, where it then shows no bar either
    with suppress(duckdb.InvalidInputException):
        db.execute("SET enable_progress_bar = false")
    return db  # it would appear among the printed lines


def _create_views(db: duckdb.DuckDBPyConnection, files: _Files) -> None:
    """``files`` as they are, ``rollouts`` in the plain form, ``traces`` with the tokens' numbers."""
    if not files.paths:
        for view in ("traces", "rollouts_on_disk", "files"):  # of a run whose files are all gone since
            db.execute(f"DROP VIEW IF EXISTS {view}")
        db.register("no_rollouts", PLAIN.empty_table())
        db.execute("CREATE OR REPLACE TEMP VIEW rollouts AS SELECT * FROM no_rollouts")
        return
    # files are complete under their names and never change, so their ends need to be read only once
    db.execute("SET parquet_metadata_cache = true")
    paths = quoted(files.paths)
    # what a step replays was drawn by an earlier policy, and would be taken for this one's
    drawn = "WHERE context_kind <> 'replayed'" if files.kind == "run" else ""
    db.execute(
        f"CREATE OR REPLACE VIEW files AS SELECT *, filename, file_row_number, {_KEY} AS row_key "
        # the files of a run may be of several versions, where it went on after an update
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
    """The result of ``read``, or ``otherwise`` and a notice where it raises UserError."""
    try:
        return read()
    except UserError as error:
        notices.append(str(error))
        return otherwise


def _config(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    data = read_yaml(path.read_text("utf-8", "replace"), str(path))
    # without components from outside: a report runs no code of a run
    return config_of_run(data, outside=False) if isinstance(data, dict) else {}


def _evaluations(folder: Path, notices: list[str]) -> dict[int, Evaluation]:
    results = {}
    for path in sorted(folder.glob("step-*.json")):
        try:
            results[int(path.stem.removeprefix("step-"))] = Evaluation.from_json(json.loads(path.read_bytes()))
        except (ValueError, UserError) as error:
            notices.append(f"{path} was skipped: {error}")
    return results
