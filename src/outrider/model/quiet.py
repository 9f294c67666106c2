"""Transformers without its progress bars."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from transformers.utils import logging


@contextmanager
def without_bars() -> Iterator[None]:
    """Transformers draws a bar for all weights read or written, on every rank, across the progress of a run."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
