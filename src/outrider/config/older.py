"""The recipe of a run on disk, which an older version of Outrider may have written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from outrider.config.recipe import Recipe
from outrider.config.sentences import mistakes
from outrider.errors import UserError

_PATHS = {"fast": "fused", "generic": "packed"}
_GENERATED = ("countdown", "hops", "word_problems")


def recipe_of_run(config: Mapping[str, Any]) -> Recipe:
    """The recipe of a run from its configuration; keys of older versions are read under their present names.

    In a recipe such a key is an error with a sentence, since it may be meant in another sense.

    Raises:
        UserError: it cannot be read here, as where a component from outside is gone.
    """
    learn = dict(config.get("learn", {}))
    if "warmup_steps" in learn:
        learn["warmup"] = f"{learn.pop('warmup_steps')} updates"
    sample = dict(config.get("sample", {}))
    if "path" in sample:
        sample["path"] = _PATHS.get(sample["path"], sample["path"])
    task = dict(config.get("task", {}))
    for name in _GENERATED:
        if name in task:  # up to 0.2 the held-out problems stood in the order in which they are drawn
            task[name] = {"heldout_order": "drawn", **(task[name] or {})}
    try:
        return Recipe.model_validate({**config, "learn": learn, "sample": sample, "task": task})
    except ValidationError as error:
        _, sentence = mistakes(error, Recipe)[0]
        raise UserError(f"the configuration of the run cannot be read: {sentence}") from error
