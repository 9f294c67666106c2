"""Opens the trackers that a run names: TensorBoard, Weights & Biases and Trackio."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from outrider.config.tracking import TrackingOptions
from outrider.errors import UserError, nearest
from outrider.screen.service_trackers import open_trackio, open_wandb
from outrider.screen.tensorboard_tracker import TensorBoard
from outrider.screen.tracker import Tracker


class _Kind(NamedTuple):
    """A kind of tracker: the function that opens it, and the ``train.tracking`` options that it does not support."""

    open: Callable[[Path, Mapping[str, Any], int, TrackingOptions], Tracker]
    lacks: tuple[str, ...] = ()


TRACKERS: dict[str, _Kind] = {
    "tensorboard": _Kind(
        lambda run, config, step, tracking: TensorBoard(run, step), ("project", "entity", "tags", "name")
    ),
    "wandb": _Kind(open_wandb),
    "trackio": _Kind(open_trackio, ("entity", "tags")),
}


def open_trackers(
    names: Sequence[str],
    run: Path,
    config: Mapping[str, Any],
    step: int = 0,
    tracking: TrackingOptions | None = None,
) -> tuple[Tracker, ...]:
    """Open one tracker per name for the run in folder ``run``.

    ``step`` is the step after which a resumed run continues, or 0 for a new run. TensorBoard hides later steps that the
    run had logged before it was interrupted. Weights & Biases and Trackio show the resumed part as a run of its own.
    The original run and its resumed parts are in one group of the tracker, named after the run folder.

    Raises:
        UserError: a name is unknown, a package is not installed (the message names the extra to install), or a service
            fails.
    """
    for name in names:
        if name not in TRACKERS:
            raise UserError(f"unknown tracker {name!r}; {nearest(name, TRACKERS)}.")
    return tuple(_opened(name, run, config, step, tracking or TrackingOptions()) for name in names)


def missing_trackers(names: Sequence[str]) -> list[str]:
    """Return one sentence for each tracker whose package is not installed."""
    return [str(_missing(name)) for name in names if find_spec(name) is None]


def unused_tracking(names: Sequence[str], tracking: TrackingOptions) -> list[str]:
    """Return sentences about ``train.tracking`` options that are set although one of the trackers does not support
    them.

    >>> unused_tracking(["wandb", "trackio"], TrackingOptions(project="sums", entity="me"))
    ["tracker 'trackio' has no entity: train.tracking.entity changes nothing there"]
    >>> unused_tracking([], TrackingOptions(name="a"))
    ['train.tracking.name changes nothing without a tracker that has it (train.trackers=[wandb])']
    """
    given = [key for key in ("project", "entity", "tags", "name") if getattr(tracking, key)]
    if not names:
        keys = ", ".join(f"train.tracking.{key}" for key in given)
        return [f"{keys} changes nothing without a tracker that has it (train.trackers=[wandb])"] if given else []
    lacking = {name: [key for key in TRACKERS[name].lacks if key in given] for name in names}
    return [
        f"tracker {name!r} has no {', no '.join(keys)}: {', '.join(f'train.tracking.{key}' for key in keys)} "
        f"{'changes' if len(keys) == 1 else 'change'} nothing there"
        for name, keys in lacking.items()
        if keys
    ]


def _opened(name: str, run: Path, config: Mapping[str, Any], step: int, tracking: TrackingOptions) -> Tracker:
    try:
        return TRACKERS[name].open(run, config, step, tracking)
    except ImportError as error:
        raise _missing(name) from error


def _missing(package: str) -> UserError:
    return UserError(f"tracker {package!r} needs a package that is not installed: pip install 'outrider[{package}]'.")
