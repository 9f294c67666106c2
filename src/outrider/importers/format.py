"""What a format is: how its files are recognised, and how they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from outrider.importers.asked import Asked
from outrider.importers.files import Head
from outrider.importers.notes import Notes
from outrider.importers.table import ImportedRow


class Format(NamedTuple):
    """One framework's dump.

    Attributes:
        name: what a user calls it.
        recognises: whether a file that begins like this is one, by its content.
        rows: the rollouts of some files, in order; what is taken as what and what is left out goes into the notes.
            What the user asked for is applied to the rows afterwards, so most formats need not look at it.
    """

    name: str
    recognises: Callable[[Head], bool]
    rows: Callable[[Sequence[Path], Notes, Asked], Iterator[ImportedRow]]
