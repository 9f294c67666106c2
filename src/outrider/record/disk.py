"""Files that survive a kill, a power cut and a full disk: each is complete, or as it was before.

A rename protects a file from a kill. For a power cut one has to wait for the disk, some milliseconds for each file and
folder; what every step writes waits once per checkpoint.
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
    """A file to read, uncompressed where its name ends in ``.gz`` or ``.zst``; reading raises OSError, EOFError or
    zlib.error."""
    name = path.name.lower()
    if name.endswith(".zst"):
        import pyarrow as pa  # not at the top: it is slow to import, and this module is everywhere

        return cast(IO[bytes], io.BufferedReader(pa.input_stream(path, compression="zstd")))
    return cast(IO[bytes], gzip.open(path)) if name.endswith(".gz") else path.open("rb")


def write_atomically(path: Path, data: Any, wait: bool = True) -> None:
    """Put bytes into a file so that after a kill or a power cut it is complete, or as it was before.

    Without ``wait`` a power cut may cost it, until :func:`sync` of the file and its folder.

    Raises:
        UserError: the disk refuses (full, not writable); the file is as it was before.
    """
    with new_file(path, wait) as temporary, temporary.open("wb") as file:
        file.write(data)
        file.flush()
        if wait:
            os.fsync(file.fileno())


@contextmanager
def new_file(path: Path, wait: bool = False) -> Iterator[Path]:
    """A place to write a file, which has the name ``path`` when the block has ended well; else nothing is left of it.

    With ``wait`` its name is on the disk then, as its contents must be before the block ends.

    Raises:
        UserError: the disk refuses; a file that had the name is as it was before.
    """
    # in the same folder: a rename is atomic within one file system only
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        # after the contents are on the disk, or a power cut could leave the name with an empty file
        os.replace(temporary, path)
        if wait:
            sync(path.parent)
    except OSError as error:
        raise disk_refused(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def sync(*paths: Path) -> None:
    """Wait until files, and the names in folders, are on the disk: after a rename, the file alone is not enough.

    Raises:
        UserError: the disk refuses.
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
    """Move a file into a folder of the same disk, durably; ``.2``, ``.3``, … is added to a name that is taken there."""
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
    """Remove, and return, the temporary files that interrupted calls of :func:`write_atomically` left in a folder."""
    leftovers = sorted(folder.glob(".*.tmp"))
    for path in leftovers:
        path.unlink(missing_ok=True)
    return leftovers


def disk_refused(path: Path, error: Exception) -> UserError:
    """The sentence for a failed write of ``path``; its folder and the reason are named."""
    reason = getattr(error, "strerror", None) or error
    return UserError(f"cannot write {path.name} in {path.parent}: {reason}; everything written before is intact.")
