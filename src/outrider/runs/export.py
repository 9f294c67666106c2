"""Exports the trained model of a run to the run's ``model`` folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from outrider.record.disk import move
from outrider.runs.folder import RunFolder


def export(folder: RunFolder, write: Callable[[Path, dict[str, Any]], None], about: dict[str, Any]) -> None:
    """Write the trained model to the run folder, unless the folder already contains the model of step
    ``about["step"]``. If the run was extended, its previous model is moved away."""
    stamp = folder.model / "outrider.json"
    if stamp.is_file() and json.loads(stamp.read_bytes())["step"] == about["step"]:
        return
    if folder.model.exists():
        move(folder.model, folder.path / "superseded")
    write(folder.model, about)
