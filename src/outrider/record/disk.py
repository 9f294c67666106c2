"""Writes files so that each file is either complete or unchanged after a kill, a power cut or a full disk.

A rename is enough to protect a file against a kill. Protection against a power cut also requires an fsync, which takes
a few milliseconds per file and folder. The files of individual steps are therefore synced only once per checkpoint.
"""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

from outrider.errors import UserError


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file for reading. A file whose name ends in ``.gz`` or ``.zst`` is decompressed.

    Reading may raise OSError, EOFError or zlib.error.
    """
    name = path.name.lower()
    if name.endswith(".zst"):
        import pyarrow as pa  # imported here, since pyarrow is slow to import and most callers do not need it

        return cast(IO[bytes], io.BufferedReader(pa.input_stream(path, compression="zstd")))
    return cast(IO[bytes], gzip.open(path)) if name.endswith(".gz") else path.open("rb")


def write_atomically(path: Path, data: Any, wait: bool = True) -> None:
    """Write bytes to a file so that the file is either complete or unchanged after a kill or a power cut.

    Without ``wait``, the file is not safe from a power cut before :func:`sync` is called on the file and its folder.

    Raises:
        UserError: the write fails, for example because the disk is full; the file is unchanged.
    """
    with new_file(path, wait) as temporary, temporary.open("wb") as file:
        file.write(data)
        file.flush()
        if wait:
            os.fsync(file.fileno())


@contextmanager
def new_file(path: Path, wait: bool = False) -> Iterator[Path]:
    """Context manager that yields the path of a temporary file.

    The file is renamed to ``path`` if the block succeeds, and removed if the block fails. With ``wait``, the context
    ends only when the renaming would survive a power cut. The block itself must sync the file's contents.

    Raises:
        UserError: the write fails; an earlier file at ``path`` is unchanged.
    """
    # in the same folder, since a rename is atomic only within one file system
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        # the contents must be on disk before the rename, or a power cut could leave an empty file with this name
        os.replace(temporary, path)
        if wait:
            sync(path.parent)
    except OSError as error:
        raise disk_refused(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def sync(*paths: Path) -> None:
    """Wait until the contents of files and the entries of folders are on disk. After a rename, sync the folder as well.

    Raises:
        UserError: the sync fails.
    """
    for path in paths:
        try:
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise disk_refused(path, error) from error


def move(path: Path, into: Path) -> Path:
    """Move a file durably to a folder on the same disk. If the name is already taken in that folder, ``.2``, ``.3``, …
    is appended."""
    place, copies = into / path.name, 1
    while place.exists():
        copies += 1
        place = into / f"{path.name}.{copies}"
    try:
        into.mkdir(parents=True, exist_ok=True)
        os.replace(path, place)
        sync(into, path.parent)
    except OSError as error:
        raise disk_refused(place, error) from error
    return place


def sweep(folder: Path) -> list[Path]:
    """Remove and return the temporary files that interrupted writes left in a folder."""
    leftovers = sorted(folder.glob(".*.tmp"))
    for path in leftovers:
        path.unlink(missing_ok=True)
    return leftovers


def disk_refused(path: Path, error: Exception) -> UserError:
    """Return the error for a failed write of ``path``, with a message that names the folder and the reason."""
    reason = getattr(error, "strerror", None) or error
    return UserError(f"cannot write {path.name} in {path.parent}: {reason}; everything written before is intact.")
