"""Contract of a tracker, which shows a run's metrics and tables during the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

TrackedValue = str | float | int | None


class TrackedTable(NamedTuple):
    """A small table for trackers; no value is None."""

    columns: tuple[str, ...]
    rows: list[tuple[TrackedValue, ...]]


class Tracker(Protocol):
    """Shows a run during training. ``metrics.jsonl`` and ``rollouts/`` stay the record."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None: ...

    def table(self, step: int, name: str, table: TrackedTable) -> None:
        """Show a table beside the metrics of ``step``, which were logged before."""
        ...

    def close(self) -> None:
        """Write out what is pending."""
        ...
