"""A line in a notebook's cell that is changed in place."""

from __future__ import annotations

import sys
from typing import Any


class NotebookLine:
    """The output of a cell, replaced by every :meth:`update`; without widgets, so that it stays readable when saved."""

    def __init__(self, display: Any, html: Any) -> None:
        self._html = html
        self._handle = display(html(""), display_id=True)

    def update(self, text: str) -> None:
        """Show HTML instead of what was there."""
        self._handle.update(self._html(text))


def notebook_line() -> NotebookLine | None:
    """A new line in the cell that is being run; None outside a notebook."""
    if _shell() is None:
        return None
    from IPython.display import HTML, display

    return NotebookLine(display, HTML)


def show_figures() -> None:
    """Have a notebook draw a figure of matplotlib that a cell ends with, as it does once pyplot is imported."""
    if (shell := _shell()) is not None:
        from IPython.core.pylabtools import select_figure_formats

        select_figure_formats(shell, {"png"})


def _shell() -> Any:
    """The notebook's shell; None outside a notebook."""
    if "IPython" not in sys.modules:
        return None
    from IPython import get_ipython

    shell = get_ipython()
    return shell if hasattr(shell, "kernel") else None
