"""Opens rollouts from any source: a run, a plain table of rollouts, or another framework's rollout files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from outrider.errors import UserError
from outrider.importers import read
from outrider.report.data import RunData
from outrider.report.run import is_run, named, open_run
from outrider.runs.bench_folder import refuse_bench


def open_any(path: Path, columns: Mapping[str, str] | None = None) -> RunData:
    """Open the rollouts at ``path``, whose format is detected from the content.

    A run, or a table with the columns of Outrider's rollouts, is read lazily. Another framework's files are read into
    memory. Notes on how these files were read are in the result's ``notices``.

    Args:
        path: file or folder.
        columns: maps Outrider's columns to the fields of another framework's files, such as ``{"text": "completion"}``
            (:func:`outrider.importers.read`).

    Raises:
        UserError: ``path`` does not exist, its format is not recognised, ``columns`` is given for a run, or ``path`` is
            a folder of ``outrider bench``, which contains several runs.
    """
    if not path.exists() or is_run(path):
        if columns:
            raise UserError(f"{path} is not a dump of another framework, so its columns cannot be mapped")
        return open_run(path)
    refuse_bench(path)
    result = read(path, columns=columns)
    run = RunData.of(named(path), result.rollouts)
    read_as = f"{path} was read as rollouts of the format {result.format!r}."
    # warnings about unreadable parts come first
    run.notices.extend([*result.warnings, read_as, *result.notes[len(result.warnings) :]])
    return run
