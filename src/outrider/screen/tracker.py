"""The interface of trackers, which show a run's metrics and tables during the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

TrackedValue = str | float | int | None


class TrackedTable(NamedTuple):
    """A small table for trackers, in which missing values are None."""

    columns: tuple[str, ...]
    rows: list[tuple[TrackedValue, ...]]


class Tracker(Protocol):
    """Shows the metrics and tables of a run during training, for example on a web dashboard."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None: ...

    def table(self, step: int, name: str, table: TrackedTable) -> None:
        """Show a table next to the metrics of ``step``. These metrics must have been logged before."""
        ...

    def close(self) -> None:
        """Flush all pending data and close the tracker."""
        ...
