"""Opening rollouts of any kind: a run, plain rollouts, or the dump of another framework."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from outrider.errors import UserError
from outrider.importers import read
from outrider.report.data import RunData
from outrider.report.run import is_run, named, open_run
from outrider.runs.bench_folder import refuse_bench


def open_any(path: Path, columns: Mapping[str, str] | None = None) -> RunData:
    """The rollouts at ``path``, recognised by content: a run or plain rollouts lazily, a dump as a table in memory.

    The notes of an importer are in ``notices``.

    Args:
        path: file or folder.
        columns: which field of a dump's records is which column, see :func:`outrider.importers.read`.

    Raises:
        UserError: nothing is there, nothing tells its form, the folder is a bench's, or ``columns`` for a run whose
            columns are known.
    """
    if not path.exists() or is_run(path):
        if columns:
            raise UserError(f"{path} is not a dump of another framework, so its columns cannot be mapped")
        return open_run(path)
    refuse_bench(path)
    result = read(path, columns=columns)
    run = RunData.of(named(path), result.rollouts)
    read_as = f"{path} was read as rollouts of the format {result.format!r}."
    # first, that a part could not be read
    run.notices.extend([*result.warnings, read_as, *result.notes[len(result.warnings) :]])
    return run
