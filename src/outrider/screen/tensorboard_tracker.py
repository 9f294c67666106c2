"""The tracker for TensorBoard, which writes event files into the run folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from outrider.record.disk import disk_refused
from outrider.screen.tracker import TrackedTable, TrackedValue


class TensorBoard:
    """Writes event files to ``<run>/tensorboard``, with metrics as scalars and tables under *Text*.

    If an interrupted run has already logged steps after ``step``, TensorBoard hides these steps.

    Raises:
        UserError: the event files cannot be written.
    """

    def __init__(self, run: Path, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._folder = run / "tensorboard"
        self._writer: Any
        with self._disk():
            self._writer = SummaryWriter(str(self._folder), purge_step=step + 1)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        with self._disk():
            for name, value in metrics.items():
                self._writer.add_scalar(name, value, step)

    def table(self, step: int, name: str, table: TrackedTable) -> None:
        from tensorboard.plugins.text.summary_v2 import text_pb

        rows = [[_literal(value) for value in row] for row in table.rows]
        cells = np.array([[f"**{column}**" for column in table.columns], *rows], dtype=object)
        with self._disk():
            self._writer.file_writer.add_summary(text_pb(name, cells), step)

    def close(self) -> None:
        with self._disk():
            self._writer.close()

    @contextmanager
    def _disk(self) -> Iterator[None]:
        """Return a context manager that converts disk errors to UserError. TensorBoard writes in a thread, so an error
        may be raised only by a later call of this tracker."""
        try:
            yield
        except OSError as error:
            raise disk_refused(self._folder, error) from error


def _literal(value: TrackedValue) -> str:
    r"""Return a value as a Markdown code block, so that TensorBoard shows its text literally.

    >>> _literal("a\n*b*"), _literal(None), _literal(0.25)
    ('    a\n    *b*', '', '    0.25')
    """
    text = "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    return "\n".join(f"    {line}" for line in text.splitlines()) if text.strip() else ""
