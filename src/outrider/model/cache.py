"""The cache folder for models that are built on this machine. One process builds a model while other processes wait."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from outrider.record.disk import disk_refused


def cache_folder() -> Path:
    """Return the folder ``$OUTRIDER_CACHE`` if set, else ``outrider`` in ``$XDG_CACHE_HOME`` if set, else in
    ``~/.cache``."""
    own, shared = os.environ.get("OUTRIDER_CACHE"), os.environ.get("XDG_CACHE_HOME")
    place = Path(own) if own else (Path(shared) if shared else Path.home() / ".cache") / "outrider"
    return place.expanduser()


@contextmanager
def making(place: Path) -> Iterator[None]:
    """Context manager for building a folder of the cache, which only one process can enter at a time.

    Raises:
        UserError: the folder cannot be written.
    """
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with (place.parent / f".{place.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise disk_refused(place, error) from error
