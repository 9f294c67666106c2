"""Trackers of metrics, beside the run folder: TensorBoard, Weights & Biases, Trackio."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from outrider.errors import UserError, nearest
from outrider.record.disk import disk_refused


class Tracker(Protocol):
    """Something that shows metrics while a run goes on. ``metrics.jsonl`` stays the record; this is a view."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None: ...

    def close(self) -> None:
        """Write out what is pending."""
        ...


def open_trackers(names: Sequence[str], run: Path, config: Mapping[str, Any], step: int = 0) -> tuple[Tracker, ...]:
    """One tracker per name, for the run in folder ``run``; no names, no trackers.

    ``step`` is the step that the run goes on from, 0 for a new one: TensorBoard then hides the later steps that an
    interrupted run has logged, the other two begin another run in a group of the folder's name.

    Raises:
        UserError: an unknown name, a package that is not installed (with the extra that brings it), or a service
            that refuses.
    """
    for name in names:
        if name not in TRACKERS:
            raise UserError(f"unknown tracker {name!r}; {nearest(name, TRACKERS)}.")
    return tuple(TRACKERS[name](run, config, step) for name in names)


def missing_trackers(names: Sequence[str]) -> list[str]:
    """One sentence for each name whose package is not installed."""
    return [str(_missing(name)) for name in names if find_spec(name) is None]


class TensorBoard:
    """Event files in ``<run>/tensorboard``."""

    def __init__(self, run: Path, config: Mapping[str, Any], step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._folder = run / "tensorboard"
        with self._disk():
            self._writer = SummaryWriter(str(self._folder), purge_step=step + 1)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        with self._disk():
            for name, value in metrics.items():
                self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        with self._disk():
            self._writer.close()

    @contextmanager
    def _disk(self) -> Iterator[None]:
        """Errors of the disk as UserError; the writer has a thread, whose errors a later call raises."""
        try:
            yield
        except OSError as error:
            raise disk_refused(self._folder, error) from error


class Service:
    """A run of wandb or trackio, whose clients have the same three calls."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._client.log(dict(metrics), step=step)

    def close(self) -> None:
        self._client.finish()


def _wandb(run: Path, config: Mapping[str, Any], step: int) -> Tracker:
    """Without network: ``WANDB_MODE=offline``. The project is ``WANDB_PROJECT``, or outrider."""
    try:
        import wandb
    except ImportError as error:
        raise _missing("wandb") from error
    project = os.environ.get("WANDB_PROJECT", "outrider")
    try:
        client = wandb.init(project=project, group=run.name, name=_name(run, step), dir=str(run), config=dict(config))
    except wandb.errors.Error as error:
        raise UserError(f"wandb refuses: {error} Without an account or a network, set WANDB_MODE=offline.") from error
    return Service(client)


def _trackio(run: Path, config: Mapping[str, Any], step: int) -> Tracker:
    """Needs no network: a database in ``TRACKIO_DIR``, or where trackio keeps it."""
    try:
        import trackio
    except ImportError as error:
        raise _missing("trackio") from error
    return Service(trackio.init(project="outrider", group=run.name, name=_name(run, step), config=dict(config)))


def _name(run: Path, step: int) -> str:
    return f"{run.name} from step {step}" if step else run.name


def _missing(package: str) -> UserError:
    return UserError(f"tracker {package!r} needs a package that is not installed: pip install 'outrider[{package}]'.")


TRACKERS: dict[str, Callable[[Path, Mapping[str, Any], int], Tracker]] = {
    "tensorboard": TensorBoard,
    "wandb": _wandb,
    "trackio": _trackio,
}
