"""Reads the configuration of a run on disk, which an older version of Outrider may have written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from outrider.config.recipe import Recipe
from outrider.config.renamed import with_present_keys
from outrider.config.sentences import mistakes
from outrider.errors import UserError

_PATHS = {"fast": "fused", "generic": "packed"}
_GENERATED = ("countdown", "hops", "word_problems")


def config_of_run(config: Mapping[str, Any], outside: bool = True) -> dict[str, Any]:
    """Return a run's configuration with old keys renamed to present keys, in the same order.

    In a recipe file, an old key is an error instead.

    Args:
        outside: whether to import third-party components to rename their old keys as well.
    """
    present: dict[str, Any] = with_present_keys(Recipe, dict(config), outside)[0]
    learn, sample, task = (present.get(key) for key in ("learn", "sample", "task"))  # copies of unchecked types
    if isinstance(learn, dict) and "warmup_steps" in learn:
        learn["warmup"] = f"{learn.pop('warmup_steps')} updates"
    if isinstance(sample, dict) and "path" in sample:
        sample["path"] = _PATHS.get(sample["path"], sample["path"])
    for name in _GENERATED:
        if isinstance(task, dict) and name in task:  # up to 0.2, held-out problems were not shuffled
            task[name] = {"heldout_order": "drawn", **(task[name] or {})}
    return present


def recipe_of_run(config: Mapping[str, Any]) -> Recipe:
    """Return the recipe of a run, parsed from its configuration.

    Raises:
        UserError: the recipe cannot be parsed on this machine, for example because a third-party component is missing.
    """
    try:
        return Recipe.model_validate(config_of_run(config))
    except ValidationError as error:
        _, sentence = mistakes(error, Recipe)[0]
        raise UserError(f"the configuration of the run cannot be read: {sentence}") from error
