"""The cache folder for models that Outrider trains or converts on this machine. One process builds a model while other
processes wait.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from outrider.record.disk import disk_refused


def cache_folder() -> Path:
    """Return the cache folder: ``$OUTRIDER_CACHE``, by default ``$XDG_CACHE_HOME/outrider``. The default of
    ``$XDG_CACHE_HOME`` is ``~/.cache``.
    """
    own, shared = os.environ.get("OUTRIDER_CACHE"), os.environ.get("XDG_CACHE_HOME")
    place = Path(own) if own else (Path(shared) if shared else Path.home() / ".cache") / "outrider"
    return place.expanduser()


@contextmanager
def making(place: Path) -> Iterator[None]:
    """Context manager for building one folder of the cache. Only one process at a time can enter the block for this
    folder.

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
