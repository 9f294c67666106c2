"""A file that is written once: never over another one, and not at all where writing fails."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from outrider.errors import UserError
from outrider.record.disk import disk_refused


def refuse_existing(paths: Sequence[Path]) -> None:
    """Raise UserError where one of the files is there already; nothing has been written then."""
    there = [path for path in paths if path.exists()]
    if there:
        more = f" and {len(there) - 1} more exist" if len(there) > 1 else " exists"
        raise UserError(f"{there[0]}{more} already: remove what is there, or name another folder by --out")


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A place to write a file, which has the name ``path`` when the block has ended well.

    Raises:
        UserError: the disk refuses.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        raise disk_refused(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink()
