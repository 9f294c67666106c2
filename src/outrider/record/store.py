"""Stores all rollouts of a run in one Parquet file per step. Files are written completely or not at all, and never
change."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from outrider.errors import UserError, nearest
from outrider.record.disk import move, sync, write_atomically
from outrider.record.rollout import Observation, Rollout, StopReason
from outrider.record.sampling import Context, Mode
from outrider.record.verdict import Outcome, Verdict

SCHEMA_VERSION = 6  # 1 had no context_trained, 2 no observations, 3 no replayed rollouts, 4 none of _SINCE_5
_SINCE_6 = {"test_set", "log_ratios"}
_SINCE_5 = {"advantages", "predicted", *_SINCE_6}
VERSIONS = {
    "2": {"observations", *_SINCE_5},
    "3": _SINCE_5,
    "4": _SINCE_5,
    "5": _SINCE_6,
    str(SCHEMA_VERSION): set[str](),
}
"""Schema versions that can be read, with the columns that each version lacks."""
READ = " and ".join([", ".join([*VERSIONS][:-1]), [*VERSIONS][-1]])  # 2, 3, 4, 5 and 6
_VERSION_KEY = b"outrider.schema_version"
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_FILE = re.compile(r"([a-z][a-z0-9_-]*)-(\d{8,})\.parquet")

_TEXT, _INT, _LONG, _DOUBLE = pa.string(), pa.int32(), pa.int64(), pa.float64()
_IDS, _FLOATS, _FLAGS, _TEXTS = (
    pa.list_(pa.field("item", type, nullable=False)) for type in (_INT, pa.float32(), pa.bool_(), _TEXT)
)

_OBSERVATIONS = pa.list_(
    pa.field(
        "item",
        pa.struct(
            [pa.field(name, _INT, nullable=False) for name in ("at", "tokens", "begin", "end")]
            + [pa.field(name, pa.bool_(), nullable=False) for name in ("error", "cut")]
        ),
        nullable=False,
    )
)


class _Column(NamedTuple):
    name: str
    type: pa.DataType
    of: Callable[[Rollout], Any]
    nullable: bool = False


# A new column, or a new meaning of a column, needs a new SCHEMA_VERSION, since readers reject unknown versions.
_COLUMNS = (
    _Column("problem_id", _TEXT, lambda r: r.problem_id),
    _Column("group_id", _TEXT, lambda r: r.group_id),
    _Column("member", _INT, lambda r: r.member),
    _Column("prompt_ids", _IDS, lambda r: r.prompt_ids),
    _Column("prefix_ids", _IDS, lambda r: r.prefix_ids),
    _Column("token_ids", _IDS, lambda r: r.token_ids),
    _Column("logprobs", _FLOATS, lambda r: r.logprobs_T),
    _Column("entropies", _FLOATS, lambda r: r.entropies_T, nullable=True),
    _Column("temperature", _DOUBLE, lambda r: r.mode.temperature),
    _Column("top_p", _DOUBLE, lambda r: r.mode.top_p),
    _Column("top_k", _INT, lambda r: r.mode.top_k),
    _Column("trainable", _FLAGS, lambda r: r.trainable_T, nullable=True),
    _Column("observations", _OBSERVATIONS, lambda r: [o._asdict() for o in r.observations]),
    _Column("parent", _TEXT, lambda r: r.parent, nullable=True),
    _Column("branch_at", _INT, lambda r: r.branch_at),  # for readers that skip prefix_ids
    _Column("context_kind", _TEXT, lambda r: r.context.kind),
    _Column("context_exemplars", _TEXTS, lambda r: [_utf8(e) for e in r.context.exemplars]),
    _Column("context_trained", _TEXT, lambda r: r.context.trained),
    _Column("stream", _TEXT, lambda r: r.stream),
    _Column("stage", _TEXT, lambda r: r.stage),
    _Column("policy_version", _LONG, lambda r: r.policy_version),
    _Column("seed", _LONG, lambda r: r.seed),
    _Column("stop", _TEXT, lambda r: r.stop.value),
    _Column("text", _TEXT, lambda r: r.text),
    _Column("prefix_text", _TEXT, lambda r: r.prefix_text),
    _Column("outcome", _TEXT, lambda r: r.verdict and r.verdict.outcome.value, nullable=True),  # null: no verdict
    _Column("score", _DOUBLE, lambda r: r.verdict and r.verdict.score, nullable=True),  # the next three likewise
    _Column("seconds", _DOUBLE, lambda r: r.verdict and r.verdict.seconds, nullable=True),
    _Column("answer", _TEXT, lambda r: r.verdict and r.verdict.answer, nullable=True),
    _Column("detail", _TEXT, lambda r: r.verdict and r.verdict.detail, nullable=True),
    _Column("reward", _DOUBLE, lambda r: r.reward, nullable=True),  # null: not assigned; NaN: unscorable
    _Column("advantage", _DOUBLE, lambda r: r.advantage, nullable=True),  # null: not assigned
    _Column("advantages", _FLOATS, lambda r: r.advantages_T, nullable=True),  # null: all are `advantage`
    _Column("predicted", _DOUBLE, lambda r: r.predicted, nullable=True),  # null: no prediction
    _Column("log_ratios", _FLOATS, lambda r: r.log_ratios_T, nullable=True),  # null: no update computed them
    _Column("unused", _TEXT, lambda r: r.unused),
)
SCHEMA = pa.schema(
    [
        pa.field("step", _LONG, nullable=False),
        pa.field("level", _TEXT),  # null: unknown to the writer
        pa.field("test_set", _TEXT),  # null: the task does not distinguish test sets
        *(pa.field(c.name, c.type, c.nullable) for c in _COLUMNS),
    ],
    metadata={_VERSION_KEY: str(SCHEMA_VERSION).encode()},
)


class RolloutStore:
    """The rollouts of a run, with one file ``<folder>/<name>-<step>.parquet`` per step and name.

    The name is the purpose of the rollouts: ``"train"``, or the name of an evaluation. While one process writes, other
    processes may read, because a file gets its name only when it is complete. A kill during a write leaves a hidden
    temporary file, which readers ignore and ``sweep`` (record/disk.py) removes. After :meth:`sync`, all files written
    so far also survive a power cut.

    Rollouts are read exactly as they were written (None, NaN and zero stay distinct), with one exception. Parquet text
    is UTF-8, so a lone surrogate is stored as the six characters of its escape, such as ``\\ud800``. Lone surrogates
    come, for example, from broken JSON input.

    A new store does not access the disk; the first write creates the folder.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._unsynced: list[Path] = []

    def write(
        self,
        step: int,
        rollouts: Sequence[Rollout],
        name: str = "train",
        levels: Mapping[str, str] | None = None,
        test_sets: Mapping[str, str] | None = None,
    ) -> Path:
        """Write the rollouts of one step to one file. If there are no rollouts, the file has no rows.

        ``levels`` maps problem ids to difficulty labels, which the column ``level`` stores for reports (null for
        problems without a label). ``test_sets`` maps problem ids to test sets, for the column ``test_set``.

        Raises:
            UserError: the step's file exists (rollouts are never overwritten), or the write fails, for example because
                the disk is full. Earlier files do not change.
            ValueError: the step is negative, or the name cannot be part of a file name.
        """
        if step < 0 or not _NAME.fullmatch(name):
            raise ValueError(f"no rollout file can be named for step {step} of {name!r}")
        path = self.folder / f"{name}-{step:08d}.parquet"
        if path.exists():
            raise UserError(f"{path} exists, and rollouts are never overwritten.")
        buffer = pa.BufferOutputStream()
        # without dictionary encoding, zstd files are at most 4 % larger and take less than half the time
        pq.write_table(
            _table(step, rollouts, levels or {}, test_sets or {}),
            buffer,
            compression="zstd",
            use_dictionary=False,
            write_statistics=False,  # files are read whole, so statistics would be useless
            write_page_checksum=True,
        )
        write_atomically(path, buffer.getvalue(), wait=False)
        self._unsynced.append(path)
        return path

    def sync(self) -> None:
        """Wait until all files written so far are on disk.

        Raises:
            UserError: the sync fails.
        """
        there = [path for path in self._unsynced if path.exists()]  # a file may have been set aside meanwhile
        # sync the folders too, since a file's name is an entry of its folder
        sync(*there, *{path.parent for path in there})
        self._unsynced = []

    def steps(self, name: str = "train") -> list[int]:
        """The steps whose rollouts are on disk, in ascending order."""
        return sorted(step for file_name, step, _ in self._files() if file_name == name)

    def names(self) -> list[str]:
        return sorted({name for name, _, _ in self._files()})

    def read(self, step: int | None = None, name: str = "train") -> list[Rollout]:
        """Return the rollouts of one step, or of all steps in order. The list is empty if no file exists.

        Raises:
            UserError: a file is damaged or has an unknown version. The message names the file; other steps can still be
                read.
        """
        rollouts: list[Rollout] = []
        for path, file_step in self._named(name):
            if step in (None, file_step):
                table = _load(path, SCHEMA.names)
                with _reading(path):
                    rollouts += _rollouts(table)
        return rollouts

    def table(
        self,
        columns: Sequence[str] | None = None,
        name: str = "train",
        step: int | None = None,
        keep: Callable[[pa.ChunkedArray], pa.ChunkedArray] | None = None,
    ) -> pa.Table:
        """Return the rollouts of all steps, or of one step, as a table with ``columns`` (None: all columns).

        If there are no files, the table has no rows. ``keep`` receives the column ``outcome`` of one file at a time,
        and returns a mask of the rows to keep. Therefore, only one file and the kept rows are in memory.

        Raises:
            UserError: see :meth:`read`.
            ValueError: a column is unknown.
        """
        wanted = SCHEMA.names if columns is None else columns
        for column in wanted:
            if column not in SCHEMA.names:
                raise ValueError(f"rollouts have no column {column!r}; {nearest(column, SCHEMA.names)}")
        empty = pa.schema([SCHEMA.field(c) for c in wanted]).empty_table()
        # build the file's name, since listing all files of a long run for each step would take minutes
        one = self.folder / f"{name}-{step or 0:08d}.parquet"
        files = [path for path, _ in self._named(name)] if step is None else [one] if one.exists() else []
        if keep is None:
            return pa.concat_tables([empty, *(_load(path, wanted) for path in files)])
        with_outcome = [*dict.fromkeys([*wanted, "outcome"])]
        read = (_load(path, with_outcome) for path in files)
        return pa.concat_tables([empty, *(t.filter(keep(t["outcome"])).select(list(wanted)) for t in read)])

    def set_aside(self, after_step: int, into: Path) -> list[Path]:
        """Move all files of steps after ``after_step``, regardless of their name, to another folder; return the new
        paths.

        A run that resumes from an earlier checkpoint calls this method. No file is deleted.

        Raises:
            UserError: a file cannot be moved.
        """
        later = sorted(path for _, step, path in self._files() if step > after_step)
        return [move(path, into) for path in later]

    def _files(self) -> Iterator[tuple[str, int, Path]]:
        if self.folder.is_dir():
            for path in self.folder.iterdir():
                if match := _FILE.fullmatch(path.name):
                    yield match[1], int(match[2]), path

    def _named(self, name: str) -> list[tuple[Path, int]]:
        return sorted(((path, step) for n, step, path in self._files() if n == name), key=lambda item: item[1])


def _table(step: int, rollouts: Sequence[Rollout], levels: Mapping[str, str], test_sets: Mapping[str, str]) -> pa.Table:
    labels = [_array([known.get(r.problem_id) for r in rollouts], _TEXT) for known in (levels, test_sets)]
    own = [_array([step] * len(rollouts), _LONG), *labels]
    return pa.table([*own, *(_array([c.of(r) for r in rollouts], c.type) for c in _COLUMNS)], schema=SCHEMA)


def _array(values: list[Any], type: pa.DataType) -> pa.Array:
    if pa.types.is_string(type):
        try:
            return pa.array(values, type)
        except UnicodeEncodeError:  # a lone surrogate, too rare to look for in every text
            return pa.array([v if v is None else _utf8(v) for v in values], type)
    if _of_numbers(type):
        return _ragged(values, type)
    return pa.array(values, type)


def _of_numbers(type: pa.DataType) -> bool:
    """Return whether an Arrow type is a list of numbers."""
    return bool(pa.types.is_list(type) and pa.types.is_primitive(type.value_type))


def _utf8(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _ragged(arrays: list[Any], type: pa.DataType) -> pa.Array:
    """Convert NumPy arrays, some of which may be None, to one list column, without a Python object for each number."""
    dtype = pa.array([], type.value_type).to_numpy(zero_copy_only=False).dtype  # to_pandas_dtype may need pandas
    offsets = np.zeros(len(arrays) + 1, dtype=np.int32)
    np.cumsum([0 if a is None else len(a) for a in arrays], out=offsets[1:])
    flat = np.concatenate([np.zeros(0, dtype), *(a for a in arrays if a is not None)], dtype=dtype, casting="same_kind")
    missing = np.array([a is None for a in arrays], dtype=np.bool_)
    return pa.ListArray.from_arrays(
        pa.array(offsets), pa.array(flat), type=type, mask=pa.array(missing) if missing.any() else None
    )


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{path} is damaged ({reason}); move it elsewhere to read the other steps.") from error


def _load(path: Path, columns: Sequence[str]) -> pa.Table:
    with _reading(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
        version = (file.schema_arrow.metadata or {}).get(_VERSION_KEY, b"none").decode("utf-8", "replace")
        if version not in VERSIONS:
            raise UserError(f"{path} has rollout schema version {version}, and this Outrider reads {READ}.")
        lacking = VERSIONS[version]
        table = _filled(file.read([name for name in columns if name not in lacking]), lacking).select(list(columns))
        table.validate(full=True)  # a flipped bit may pass the page checksums, but must not cause wrong text or a crash
        # joining an empty table with the correct types detects a flipped bit in the footer that changes a column's type
        return pa.concat_tables([pa.schema([SCHEMA.field(name) for name in columns]).empty_table(), table])


def _filled(table: pa.Table, lacking: set[str]) -> pa.Table:
    """Return a table that an earlier version of Outrider wrote, with the missing columns added. These columns contain
    empty lists or null."""
    for name in sorted(lacking):
        field = SCHEMA.field(name)
        nothing = pa.nulls(len(table), field.type) if field.nullable else pa.array([[]] * len(table), field.type)
        table = table.append_column(field, nothing)
    return table


def _rollouts(table: pa.Table) -> Iterator[Rollout]:
    values = {name: _values(table.column(name)) for name in SCHEMA.names}
    for row in zip(*values.values(), strict=True):
        c = dict(zip(values, row, strict=True))
        verdict = None
        if c["outcome"] is not None:
            verdict = Verdict(Outcome(c["outcome"]), c["score"], c["seconds"], c["answer"], c["detail"])
        yield Rollout(
            problem_id=c["problem_id"],
            group_id=c["group_id"],
            member=c["member"],
            prompt_ids=c["prompt_ids"],
            token_ids=c["token_ids"],
            logprobs_T=c["logprobs"],
            prefix_ids=c["prefix_ids"],
            entropies_T=c["entropies"],
            mode=Mode(c["temperature"], c["top_p"], c["top_k"]),
            trainable_T=c["trainable"],
            observations=tuple(Observation(**one) for one in c["observations"]),
            parent=c["parent"],
            context=Context(c["context_kind"], tuple(c["context_exemplars"]), c["context_trained"]),
            stream=c["stream"],
            stage=c["stage"],
            policy_version=c["policy_version"],
            seed=c["seed"],
            stop=StopReason(c["stop"]),
            text=c["text"],
            prefix_text=c["prefix_text"],
            verdict=verdict,
            reward=c["reward"],
            advantage=c["advantage"],
            advantages_T=c["advantages"],
            predicted=c["predicted"],
            log_ratios_T=c["log_ratios"],
            unused=c["unused"],
        )


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return a column as Python values; lists of numbers become NumPy arrays (writable views into one array)."""
    if not _of_numbers(column.type):
        return list(column.to_pylist())
    # read numbers from Arrow's buffer, since to_pylist would create a Python object for each number
    array = column.combine_chunks()
    flat = np.array(array.values.to_numpy(zero_copy_only=False))
    offsets, valid = array.offsets.to_numpy(), array.is_valid().to_numpy(zero_copy_only=False)
    return [flat[a:b] if ok else None for a, b, ok in zip(offsets[:-1], offsets[1:], valid, strict=True)]
