"""The recipe of a run on disk, which an older version of Outrider may have written down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outrider.config.recipe import Recipe

_PATHS = {"fast": "fused", "generic": "packed"}


def recipe_of_run(config: Mapping[str, Any]) -> Recipe:
    """The recipe that a run was begun with, from its configuration: keys that have another name now are read by it.

    Whoever writes a recipe gets a sentence about such a key instead, as its old name may be misunderstood.
    """
    learn = dict(config.get("learn", {}))
    if "warmup_steps" in learn:
        learn["warmup"] = f"{learn.pop('warmup_steps')} updates"
    sample = dict(config.get("sample", {}))
    if "path" in sample:
        sample["path"] = _PATHS.get(sample["path"], sample["path"])
    return Recipe.model_validate({**config, "learn": learn, "sample": sample})
