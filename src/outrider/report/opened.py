"""Open rollouts of any kind: a run, plain rollouts, or another framework's dump."""

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

    A run or plain rollouts are read lazily, a dump is read into memory. The importer's notes go into ``notices``.

    Args:
        path: file or folder.
        columns: mapping between a dump's fields and columns, see :func:`outrider.importers.read`.

    Raises:
        UserError: ``path`` does not exist, its format is not recognised, it is a bench folder, or ``columns`` is given
            for a run, whose columns are known.
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
