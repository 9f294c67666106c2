"""Checks that an export does not overwrite existing files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from outrider.errors import UserError


def refuse_existing(paths: Sequence[Path]) -> None:
    """Raise UserError if one of the files already exists. Exporters call this function before they write any file."""
    there = [path for path in paths if path.exists()]
    if there:
        more = f" and {len(there) - 1} more exist" if len(there) > 1 else " exists"
        raise UserError(f"{there[0]}{more} already: remove what is there, or name another folder by --out")
