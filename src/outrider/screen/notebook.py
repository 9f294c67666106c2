"""Updates the output of a notebook cell in place."""

from __future__ import annotations

import sys
from typing import Any


class NotebookLine:
    """The output of a notebook cell. Every :meth:`update` replaces this output. It contains no widgets, so that a saved
    notebook also shows it."""

    def __init__(self, display: Any, html: Any) -> None:
        self._html = html
        self._handle = display(html(""), display_id=True)

    def update(self, text: str) -> None:
        """Replace the output with HTML text."""
        self._handle.update(self._html(text))


def notebook_line() -> NotebookLine | None:
    """Create an updatable output in the current cell. Return None outside a notebook."""
    if _shell() is None:
        return None
    from IPython.display import HTML, display

    return NotebookLine(display, HTML)


def show_figures() -> None:
    """Make a notebook draw the matplotlib figure that a cell returns. Without this call, the user must import pyplot
    first."""
    if (shell := _shell()) is not None:
        from IPython.core.pylabtools import select_figure_formats

        select_figure_formats(shell, {"png"})


def _shell() -> Any:
    """Return the notebook's shell, or None outside a notebook."""
    if "IPython" not in sys.modules:
        return None
    from IPython import get_ipython

    shell = get_ipython()
    return shell if hasattr(shell, "kernel") else None
