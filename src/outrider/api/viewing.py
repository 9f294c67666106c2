"""Opens the web viewer (``outrider view``) from Python code or a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from html import escape
from pathlib import Path

from outrider.model.places import local_tokenizer


class Viewer:
    """A server for the pages of ``outrider view``. The server accepts connections only from this machine, and runs
    until :meth:`close` is called or the process ends.

    If a notebook cell on this machine ends with a ``Viewer`` object, the pages appear below the cell.

    Args:
        paths: run folders, or rollouts of another framework.
        port: port of the server; 0 selects any free port.

    Attributes:
        address: URL of the first page.

    Raises:
        UserError: a run cannot be read, the extra ``view`` is not installed, or the port is in use.
    """

    def __init__(self, paths: Sequence[Path], port: int = 0) -> None:
        from outrider.view.opened_run import OpenedRun
        from outrider.view.view_command import serving

        self._open = ExitStack()
        self.address: str = self._open.enter_context(
            serving([OpenedRun(path) for path in paths], local_tokenizer, port)
        )

    def close(self) -> None:
        """Stop the server. A second call has no effect."""
        self._open.close()

    def __repr__(self) -> str:
        return f"Viewer({self.address!r})"

    def _repr_html_(self) -> str:
        address = escape(self.address)
        return (
            f'<p><a href="{address}" target="_blank">{address}</a></p>'
            f'<iframe src="{address}" width="100%" height="800" style="border: 1px solid #ccc"></iframe>'
        )
