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

    A run or a plain table is read lazily; another framework's files are read into memory. The importer's notes are
    added to ``notices``.

    Args:
        path: file or folder.
        columns: a mapping from each column's name to the record field that the column fills
            (:func:`outrider.importers.read`). This mapping can be given only for another framework's files.

    Raises:
        UserError: ``path`` does not exist, its format is not recognised, ``path`` is a bench folder, or ``columns`` is
            given for a run, whose columns are known.
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
