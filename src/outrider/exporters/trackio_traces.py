"""Writes trackio traces: each rollout becomes a conversation, with its reward and other numbers, in a run of a trackio
project.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from outrider.errors import UserError
from outrider.exporters.messages import messages_of
from outrider.exporters.source import ExportedRollout, ExportPart
from outrider.importers.notes import Notes
from outrider.importers.plain import PLAIN

TOGETHER = 200  # number of traces in one entry of trackio's log
_TEXTS = ("prompt", "text")  # columns that become the messages of a trace


def write_traces(parts: Sequence[ExportPart], folder: Path | None, project: str, name: str, notes: Notes) -> list[Path]:
    """Write the rollouts as traces of a new trackio run ``name``. Each trace is logged under the name of the rollout's
    split, at the rollout's step.

    A rollout without text is skipped and counted.

    Args:
        folder: trackio's folder. If ``folder`` is None, trackio uses its default folder (``TRACKIO_DIR``).

    Raises:
        UserError: trackio is not installed, already uses another folder, rejects the project's name, or already has a
            run ``name``.
    """
    trackio = _trackio(folder)
    _refuse_existing(trackio, project, name)
    try:
        run = trackio.init(
            project=project, name=name, auto_log_cpu=False, auto_log_gpu=False, embed=False, resume="never"
        )
    except ValueError as error:
        raise UserError(f"trackio refuses the project {project!r}: {error}") from error
    for part in parts:
        while some := list(islice(part.rollouts, TOGETHER)):
            run.log({part.split: list(_traces(trackio, some, notes))}, step=part.step)
    run.finish()
    return [Path(trackio.utils.TRACKIO_DIR)]


def _trackio(folder: Path | None) -> Any:
    """Set trackio's folder and then import trackio, which reads ``TRACKIO_DIR`` at import."""
    if folder is not None and "trackio" not in sys.modules:
        os.environ["TRACKIO_DIR"] = str(folder.absolute())
    try:
        import trackio
    except ImportError as error:
        raise UserError("the export to trackio needs a package: pip install 'outrider[trackio]'.") from error
    used = Path(trackio.utils.TRACKIO_DIR)
    if folder is not None and used.absolute() != folder.absolute():
        raise UserError(f"trackio is loaded already and uses {used}: export to {folder} in another process")
    return trackio


def _refuse_existing(trackio: Any, project: str, name: str) -> None:
    try:
        names = [run.name for run in trackio.Api().runs(project)]
    except ValueError:  # the project does not exist yet
        return
    if name in names:
        raise UserError(f"trackio's project {project!r} has a run {name!r} already: name another --project or --out")


def _traces(trackio: Any, rollouts: Sequence[ExportedRollout], notes: Notes) -> Iterator[Any]:
    for rollout in rollouts:
        if rollout.row["text"] is None:
            notes.count("rollout without a text was skipped", "rollouts without a text were skipped")
            continue
        notes.count("trace has no prompt", "traces have no prompt", rollout.row["prompt"] is None)
        known = {name: rollout.row[name] for name in PLAIN.names if name not in _TEXTS}
        known = {name: value for name, value in known.items() if value not in (None, "")}
        yield trackio.Trace([one._asdict() for one in messages_of(rollout)], known)
