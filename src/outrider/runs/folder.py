"""The folder of a run. A killed process or a full disk never damages files that are already in the run's folder."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, TextIO

from outrider.config import dump_yaml
from outrider.errors import UserError
from outrider.record.disk import disk_refused, move, sweep, write_atomically
from outrider.record.store import RolloutStore
from outrider.runs.bench_folder import refuse_bench
from outrider.runs.environment import changes_since, environment
from outrider.runs.lines import JsonLines
from outrider.runs.metric_names import with_present_names

_LOCK = ".lock"
_ENVIRONMENT = "environment.json"
_FIRST = ("metrics.jsonl", "timing.jsonl", _ENVIRONMENT, "config.yaml")
"""Files of a new run, in the order in which they are written."""
_EVALUATION = re.compile(r"step-(\d{8,})\.json")


class RunFolder:
    """The layout of a run on disk. All files of a run are written through this class.

    ======================  ==========================================================================
    ``config.yaml``         the resolved configuration, as ``--dry-run`` prints it
    ``environment.json``    versions, machine, git commit and command line at the start
    ``metrics.jsonl``       one line per step: numbers that are bit-identical in equal runs
    ``timing.jsonl``        one line per step: wall-clock seconds and rates
    ``eval_timing.jsonl``   one line per evaluation: its wall-clock seconds
    ``rollouts/``           every rollout, see :class:`outrider.record.store.RolloutStore`
    ``evaluations/``        one file per evaluation, such as ``step-00000012.json``
    ``checkpoints/``        the states that a resumed run can start from
    ``model/``              the trained policy in Hugging Face format
    ``tensorboard/`` …      files that trackers write (also ``wandb/``)
    ``curves.png``          the plot of the run
    ``table.md``            the first and last evaluation, as printed
    ``notices.txt``         other printed lines, such as repairs and forced changes when a run resumes
    ``superseded/<n>/``     records that the n-th resume set aside: steps after its checkpoint
    ======================  ==========================================================================

    A step number counts finished training steps. The first step's metrics and rollouts have the number 1, and the
    evaluation before the first step has the number 0. The checkpoint of step n covers all records with numbers up to n.

    ``RunFolder(path)`` only reads files, needs no lock, and may be used while the run is active. :meth:`create` and
    :meth:`open` write files, and hold the folder's lock until :meth:`close` or the end of the process.

    Attributes:
        notices: messages for the user, such as one for each damaged file that was repaired.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.notices: list[str] = []
        self.rollouts = RolloutStore(self.path / "rollouts")
        self._metrics = JsonLines(self.path / "metrics.jsonl")
        self._timing = JsonLines(self.path / "timing.jsonl")
        self._evaluation_timing = JsonLines(self.path / "eval_timing.jsonl")
        self._lock: TextIO | None = None

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def model(self) -> Path:
        return self.path / "model"

    @property
    def curves(self) -> Path:
        return self.path / "curves.png"

    @classmethod
    def existing(cls, path: str | Path) -> Self:
        """Open an existing run for reading.

        Raises:
            UserError: the folder contains no run.
        """
        run = cls(path)
        if not run.config.is_file():
            refuse_bench(run.path)
            raise UserError(f"{run.path} holds no run: it has no config.yaml.")
        return run

    @classmethod
    def create(cls, path: str | Path, config: Mapping[str, Any], engine: str = "") -> Self:
        """Create a run in a folder that is empty or does not exist yet. :func:`environment` explains ``engine``.

        If a run in this folder was killed before ``config.yaml`` was written, the files of that run are overwritten.

        Raises:
            UserError: the folder contains a run or other files, is locked by another process, or cannot be created.
        """
        run = cls(path)
        run._refuse_if_used()
        run._take()
        run._refuse_if_used()  # again, since another process may have started a run before this lock
        sweep(run.path)
        for lines in (run._metrics, run._timing):
            write_atomically(lines.path, b"")  # so that later appends need no sync of the folder
        write_atomically(run.path / _ENVIRONMENT, _json(environment(engine)))
        write_atomically(run.config, dump_yaml(dict(config)).encode())  # last, since it makes the folder a run
        return run

    @property
    def was_begun(self) -> bool:
        """Whether a run was started in this folder, but killed before it wrote ``config.yaml``."""
        return not self.config.exists() and self.path.is_dir() and any(self.path.iterdir()) and not self._foreign()

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open an existing run to continue it. Temporary files from interrupted writes are removed and listed in
        ``notices``.

        Raises:
            UserError: the folder contains no run, another process writes to the run, or one of its files is damaged.
        """
        run = cls.existing(path)
        run._take()
        leftovers = [file for part in ("", "evaluations", "rollouts") for file in sweep(run.path / part)]
        run.notices += [
            f"removed {file.relative_to(run.path)}, which an interrupted write had left." for file in leftovers
        ]
        run.notices += [notice for lines in run._lines for notice in lines.repair()]
        run.notices += changes_since(run.path / _ENVIRONMENT)
        return run

    def append_metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Append one line of metrics. Measured times belong in :meth:`append_timing`. :class:`JsonLines` describes the
        format."""
        self._held()
        self._metrics.append(step, values)

    def note(self, notice: str) -> None:
        """Add a line to ``notices.txt``, which has all lines that were printed for the user, except metrics.

        Raises:
            UserError: the file cannot be written.
        """
        self._held()
        path = self.path / "notices.txt"
        try:
            with path.open("a", encoding="utf-8") as file:
                file.write(notice + "\n")
        except OSError as error:
            raise disk_refused(path, error) from error

    def append_timing(self, step: int, values: Mapping[str, float]) -> None:
        """Append one line to ``timing.jsonl``, with the step's wall-clock seconds and tokens per second.

        Timing has its own file, so that two runs with the same configuration and seed write identical metrics files.
        """
        self._held()
        self._timing.append(step, values)

    def sync(self) -> None:
        """Wait until rollouts, metrics and timing are on disk. A power cut may still destroy data written later.

        Raises:
            UserError: a file cannot be written.
        """
        self._held()
        for part in (self.rollouts, self._metrics, self._timing):
            part.sync()
        if self._evaluation_timing.path.exists():  # false before the first evaluation
            self._evaluation_timing.sync()

    @property
    def _lines(self) -> tuple[JsonLines, ...]:
        return self._metrics, self._timing, self._evaluation_timing

    def metrics(self) -> list[dict[str, float]]:
        """Return the metrics of all steps in order. Each step's metrics include its number, ``"step"``.

        Metrics from older Outrider versions are renamed to their current names. A line that is still being written is
        excluded.
        """
        return [with_present_names(row) for row in self._metrics.rows()]

    def timing(self) -> list[dict[str, float]]:
        """Return the duration of each training step in seconds by phase, and its tokens per second."""
        return self._timing.rows()

    def evaluation_timing(self) -> list[dict[str, float]]:
        """Return the duration of each evaluation in seconds, under the key ``"evaluate"``. The list is empty if the run
        was made with an Outrider version that did not record these durations."""
        return self._evaluation_timing.rows()

    def write_evaluation(self, step: int, evaluation: Mapping[str, Any], seconds: float | None = None) -> None:
        """Write an evaluation, which is JSON data, and its duration in seconds, if known. ``step`` is the number of
        training steps before the evaluation.

        Raises:
            UserError: the evaluation exists already, or the file cannot be written.
        """
        self._held()
        path = self.path / "evaluations" / f"step-{step:08d}.json"
        if path.exists():
            raise UserError(f"{path} exists, and evaluations are never overwritten.")
        write_atomically(path, _json(evaluation))
        if seconds is not None:
            self._evaluation_timing.append(step, {"evaluate": seconds})

    def evaluations(self) -> dict[int, dict[str, Any]]:
        """Return all evaluations by step, in order.

        Raises:
            UserError: one of the files is not JSON.
        """
        evaluations = {}
        for step, path in self._evaluation_files():
            try:
                evaluations[step] = json.loads(path.read_bytes())
            except ValueError as error:
                raise UserError(f"{path} is damaged: {error}.") from error
        return evaluations

    def rewind(self, step: int) -> None:
        """Move all records after ``step`` to ``superseded/<n>/``. A ``step`` of -1 moves all records. No record is
        deleted.

        Records are metrics, timing, rollouts and evaluations. A message in ``notices`` says how many were moved. If the
        process is killed during the move, a record may exist in the old and in the new file, but no record is lost.
        Another rewind completes the move.
        """
        self._held()
        taken = [int(p.name) for p in (self.path / "superseded").glob("[0-9]*")]
        into = self.path / "superseded" / str(max(taken, default=0) + 1)
        late = [path for evaluated, path in self._evaluation_files() if evaluated > step]
        counts = {
            "rollout files": len(self.rollouts.set_aside(step, into / "rollouts")),
            "evaluations": len([move(path, into / "evaluations") for path in late]),
            "metrics lines": self._metrics.set_aside(step, into),
            "timing lines": self._timing.set_aside(step, into) + self._evaluation_timing.set_aside(step, into),
        }
        if any(counts.values()):
            moved = ", ".join(f"{what}: {count}" for what, count in counts.items() if count)
            self.notices.append(f"set aside what came after step {step} in {into.relative_to(self.path)} ({moved}).")

    def close(self) -> None:
        """Release the lock, so that other processes may write to the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _take(self) -> None:
        self._lock = lock_folder(self.path)

    def _held(self) -> None:
        if self._lock is None:
            raise ValueError(f"{self.path} is read only here; create() and open() take the lock that writing needs")

    def _refuse_if_used(self) -> None:
        if self.config.exists():
            raise UserError(
                f"{self.path} holds a run already; choose another output folder, or go on with a training by --resume."
            )
        if self.path.is_dir():
            if files := self._foreign():
                raise UserError(f"{self.path} is not empty (it holds {files[0]}); choose another output folder.")
        elif self.path.exists():
            raise UserError(f"{self.path} is a file; choose another output folder.")

    def _foreign(self) -> list[str]:
        """Return the files that cannot come from an interrupted :meth:`create`.

        :meth:`create` writes the files ``_FIRST`` in order. If the process is killed meanwhile, the folder may have an
        empty ``metrics.jsonl``, an empty ``timing.jsonl``, a complete ``environment.json``, and a temporary version of
        the next file.
        """
        names = {path.name for path in self.path.iterdir()} - {_LOCK}
        whole = [name for name in _FIRST[:2] if name in names and not (self.path / name).stat().st_size]
        if whole == [*_FIRST[:2]] and _ENVIRONMENT in names:
            whole.append(_ENVIRONMENT)
        return sorted(names - {*whole, *(f".{name}.tmp" for name in _FIRST)})

    def _evaluation_files(self) -> list[tuple[int, Path]]:
        folder = self.path / "evaluations"
        matches = [(_EVALUATION.fullmatch(p.name), p) for p in folder.iterdir()] if folder.is_dir() else []
        return sorted((int(match[1]), path) for match, path in matches if match)


def lock_folder(path: Path) -> TextIO:
    """Create a folder if it does not exist, and lock it for this process until the returned file is closed.

    Raises:
        UserError: another process holds the lock, or the folder cannot be written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = (path / _LOCK).open("a+")
    except OSError as error:
        raise disk_refused(path / _LOCK, error) from error
    try:
        # Unlike flock, lockf's record lock is not inherited by forked workers, which may outlive a killed run.
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.seek(0)
        holder = lock.read().strip() or "another process"
        lock.close()
        raise UserError(f"{path} is being written by {holder}.") from error
    # opened with "a+", so that a process without the lock does not erase the holder's name
    lock.truncate(0)
    lock.write(f"process {os.getpid()} on {platform.node()}")
    lock.flush()
    return lock


def _json(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, indent=1, allow_nan=False).encode() + b"\n"
