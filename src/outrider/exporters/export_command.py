"""Exports rollouts of a run, or rollouts from another framework's files, as Inspect logs, trackio traces or a Parquet
table.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

import duckdb
from rich.console import Console
from tokenizers import Tokenizer

from outrider.errors import UserError
from outrider.exporters.gold import gold_answers
from outrider.exporters.inspect_logs import LogNames, write_inspect
from outrider.exporters.inspect_sample import Known
from outrider.exporters.plain_file import write_plain
from outrider.exporters.source import ExportChoice, ExportPart, parts_of
from outrider.exporters.trackio_traces import write_traces
from outrider.importers.notes import Notes
from outrider.report.data import RunData
from outrider.report.opened import open_any
from outrider.runs.tokenizer import Locate, tokenizer_of

Target = Literal["inspect", "trackio", "parquet"]
PROJECT = "outrider"


class Exported(NamedTuple):
    """The result of an export: the written ``paths`` (trackio's folder if trackio is the target), and notes on skipped
    rollouts.
    """

    paths: list[Path]
    notices: list[str]


def export_command(
    path: Path,
    to: Target,
    locate: Locate,
    out: Path | None = None,
    wanted: ExportChoice | None = None,
    columns: Mapping[str, str] | None = None,
    project: str | None = None,
) -> int:
    """Export rollouts, print the written files and the command that opens them, and return 0.

    Raises:
        UserError: see :func:`exported`.
    """
    found = exported(path, to, locate, out, wanted, columns, project)
    for notice in found.notices:
        Console(stderr=True).print(notice, soft_wrap=True, markup=False, highlight=False)
    Console().print(_opened_by(found.paths, to, project), soft_wrap=True, markup=False, highlight=False)
    return 0


def exported(
    path: Path,
    to: Target,
    locate: Locate,
    out: Path | None = None,
    wanted: ExportChoice | None = None,
    columns: Mapping[str, str] | None = None,
    project: str | None = None,
) -> Exported:
    """Export the rollouts at ``path`` for another tool. No existing file is overwritten.

    Args:
        path: a run folder, a Parquet file from an earlier export, or the rollout files of another framework.
        locate: a function that takes a model's name and returns the model's tokenizer, which decodes prompts.
        out: the folder to write to. If None, the target trackio uses trackio's default folder, and all other targets
            use ``export/TARGET`` in the run folder.
        wanted: splits and steps to export; None: all rollouts.
        columns: only for another framework's files: a mapping from the names of Outrider's rollout columns, such as
            ``text``, to the names of the fields in these files.
        project: trackio project; None: ``PROJECT``.

    Raises:
        UserError: nothing can be read, a wanted split or step does not exist, a file or a trackio run already exists,
            a file cannot be written, or trackio is not installed.
    """
    if project is not None and to != "trackio":
        raise UserError(f"--project is trackio's, and {to} has none")
    folder = out if out is not None or to == "trackio" else _beside(path, to)
    run, notes = open_any(path, columns), Notes()
    try:
        parts = parts_of(run, wanted or ExportChoice(), _tokenizer(path, run, locate))
        paths = _write(parts, to, folder, run, project or PROJECT, notes)
    except duckdb.IOException as error:
        raise UserError(f"{path} changed while it was read: {str(error).splitlines()[0]}") from error
    finally:
        run.db.close()
    return Exported(paths, [*run.notices, *notes.sentences()])


def _write(
    parts: list[ExportPart], to: Target, folder: Path | None, run: RunData, project: str, notes: Notes
) -> list[Path]:
    if to == "trackio":
        return write_traces(parts, folder, project, f"rollouts of {run.name}", notes)
    assert folder is not None
    if to == "parquet":
        return write_plain(parts, folder, notes)
    gold = gold_answers(run.config, notes)
    task = next(iter(run.config.get("task") or {}), run.name) if run.config else run.name
    known = Known(str(run.config.get("model") or "unknown"), gold)
    return write_inspect(parts, folder, LogNames(run.name, task, known), notes)


def _beside(path: Path, to: Target) -> Path:
    """Return the default export folder, which is inside the run folder. There is no default for another framework's
    files, since Outrider does not own their folder."""
    if (path / "config.yaml").is_file():
        return path / "export" / to
    raise UserError(f"{path} is no run folder of Outrider: name a folder for the export by --out")


def _tokenizer(path: Path, run: RunData, locate: Locate) -> Tokenizer | None:
    if not run.has("traces"):
        return None
    model = run.config.get("model")
    with suppress(UserError, OSError):
        return tokenizer_of(path, model if isinstance(model, str) else None, locate)
    return None


def _opened_by(paths: list[Path], to: Target, project: str | None) -> str:
    """Return the last line of output, which names the written files and the command that opens them."""
    place = paths[0].parent
    if to == "trackio":
        return f"traces are in {paths[0]}: TRACKIO_DIR={paths[0]} trackio show --project {project or PROJECT}"
    if to == "parquet":
        return f"wrote {paths[0]}: outrider report {paths[0]}"
    logs = "1 log" if len(paths) == 1 else f"{len(paths):,} logs"
    return f"wrote {logs} into {place}: inspect view --log-dir {place}"
