"""Trackers for Weights & Biases and Trackio."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outrider.config.tracking import TrackingOptions
from outrider.errors import UserError
from outrider.screen.tracker import TrackedTable


class Service:
    """A run of wandb or trackio.

    Args:
        run: return value of the client's ``init``.
        table_type: the client's table class.
    """

    def __init__(self, run: Any, table_type: Any) -> None:
        self._run, self._table = run, table_type

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log(dict(metrics), step=step)

    def table(self, step: int, name: str, table: TrackedTable) -> None:
        made = self._table(columns=list(table.columns), data=[list(row) for row in table.rows])
        self._run.log({name: made}, step=step)

    def close(self) -> None:
        self._run.finish()


def open_wandb(run: Path, config: Mapping[str, Any], step: int, tracking: TrackingOptions) -> Service:
    """Start a Weights & Biases run in a group named after the run folder. ``WANDB_MODE=offline`` needs no network.

    Raises:
        ImportError: wandb is not installed.
        UserError: wandb cannot start the run. The message contains wandb's error.
    """
    import wandb

    project = tracking.project or os.environ.get("WANDB_PROJECT", "outrider")
    try:
        client = wandb.init(
            project=project,
            entity=tracking.entity,
            tags=tracking.tags or None,
            group=run.name,
            name=_name(run, step, tracking),
            dir=str(run),
            config=dict(config),
        )
    except wandb.errors.Error as error:
        raise UserError(f"wandb failed: {error} Without an account or a network, set WANDB_MODE=offline.") from error
    return Service(client, wandb.Table)


def open_trackio(run: Path, config: Mapping[str, Any], step: int, tracking: TrackingOptions) -> Service:
    """Start a Trackio run in a group named after the run folder. The database is in ``TRACKIO_DIR``, or in Trackio's
    default folder.

    Raises:
        ImportError: trackio is not installed.
        UserError: trackio rejects the project's name.
    """
    import trackio

    project, name = tracking.project or "outrider", _name(run, step, tracking)
    try:
        client = trackio.init(project=project, group=run.name, name=name, config=dict(config))
    except ValueError as error:
        raise UserError(f"trackio rejected project {project!r} (train.tracking.project): {error}") from error
    return Service(client, trackio.Table)


def _name(run: Path, step: int, tracking: TrackingOptions) -> str:
    name = tracking.name or run.name
    return f"{name} from step {step}" if step else name
