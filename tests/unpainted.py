"""Runs make their picture in every test, and paint it in few: 0.4 of the 1.2 CPU seconds of a small run are for paint.

Imported by the suite and by the runs that it forks. Tests that look at a picture use ``painted``; the runs of a bench
and those that an interpreter begins always paint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from outrider.record.disk import write_atomically
from outrider.screen import curves

draw_curves = curves.draw_curves


def _unpainted(rows: curves.MetricRows, evaluations: Mapping[int, Mapping[str, Any]], path: Path) -> None:
    curves.curves_figure(rows, evaluations)
    write_atomically(path, b"not painted")


@contextmanager
def painted() -> Iterator[None]:
    """Runs of this process paint their pictures in this block."""
    curves.draw_curves = draw_curves
    try:
        yield
    finally:
        curves.draw_curves = _unpainted


curves.draw_curves = _unpainted
