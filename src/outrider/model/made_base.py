"""Bases that the package holds as instructions alone: they are made from another model on first use, and kept.

``base/NAME/sft.yaml`` has the settings of ``outrider sft``. The model lies in the cache, under a name that changes with
these settings. Imports no torch.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from outrider.model.gguf_file import cache_folder
from outrider.record.disk import disk_refused

BASE = "base:"
_SETTINGS = "sft.yaml"


class MadeBase(NamedTuple):
    """Where a base lies once it is made, and the text of its settings."""

    folder: Path
    settings: str

    @property
    def start(self) -> str:
        """The model that it is made from."""
        found = re.search(r"^base: (\S+)", self.settings, re.MULTILINE)
        assert found is not None, "settings of a base without one"
        return found[1]

    @property
    def made(self) -> bool:
        return (self.folder / "config.json").is_file()


def made_base(model: str) -> MadeBase | None:
    """The base that a model's name means, if it is one that is made on first use.

    >>> made_base("base:countdown"), made_base("base:smollm2").folder.name[:13]
    (None, 'base-smollm2-')
    """
    if not model.startswith(BASE):
        return None
    name = model.removeprefix(BASE)
    file = resources.files("outrider") / "base" / name / _SETTINGS
    if not file.is_file():
        return None
    settings = file.read_text("utf-8")
    key = hashlib.blake2b(settings.encode(), digest_size=6).hexdigest()
    return MadeBase(cache_folder() / f"base-{name}-{key}", settings)


@contextmanager
def making(base: MadeBase) -> Iterator[None]:
    """A block that one process at a time is in; the others wait.

    Raises:
        UserError: the disk refuses.
    """
    try:
        base.folder.parent.mkdir(parents=True, exist_ok=True)
        lock = (base.folder.parent / f".{base.folder.name}.lock").open("w")
    except OSError as error:
        raise disk_refused(base.folder, error) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
