"""Base models of the form ``base:NAME``. Outrider trains such a model when it is first used, starting from another
model, and then caches it. The package contains only the training settings.

``base/NAME/sft.yaml`` has the settings for ``outrider sft``. The trained model is cached under a name that depends on
these settings. The module does not import torch.
"""

from __future__ import annotations

import hashlib
import json
import re
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import yaml

from outrider.model.cache import cache_folder

BASE = "base:"
_SETTINGS = "sft.yaml"


class MadeBase(NamedTuple):
    """The cache folder of a base model that is trained when first used, and the text of its training settings."""

    folder: Path
    settings: str

    @property
    def start(self) -> str:
        """Name of the model from which training starts."""
        found = re.search(r"^base: (\S+)", self.settings, re.MULTILINE)
        assert found is not None, "settings of a base without one"
        return found[1]

    @property
    def made(self) -> bool:
        return (self.folder / "config.json").is_file()


def made_base(model: str) -> MadeBase | None:
    """Return the base model ``model`` if Outrider trains this model itself; otherwise, return None.

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
    # of the values only, since a changed comment must not force a new training (half an hour)
    values = json.dumps(yaml.safe_load(settings), sort_keys=True)
    key = hashlib.blake2b(values.encode(), digest_size=6).hexdigest()
    return MadeBase(cache_folder() / f"base-{name}-{key}", settings)
