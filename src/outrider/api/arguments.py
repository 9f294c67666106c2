"""The arguments of :func:`outrider.train` and :class:`outrider.Session`, made into a recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from outrider.api.models import place_of_model
from outrider.api.rewards import verifier_of
from outrider.api.rows import table_of
from outrider.config import Recipe, load_recipe
from outrider.errors import UserError
from outrider.explore import Stage
from outrider.tasks.task import Task


class RecipeArguments(TypedDict, total=False):
    """The arguments of :func:`train` that make its recipe."""

    setting: str | None
    model: Any
    data: Any
    eval_data: Any
    prompt: str | None
    reward: Any
    stages: Sequence[Stage | str | Mapping[str, Any]]
    config: Mapping[str, Any] | None
    out: str | Path | None


def folder_of(recipe: Recipe, out: str | Path | None) -> Path:
    """The run folder: ``out``, or ``runs/<recipe>-<seed>``."""
    return Path("runs") / f"{recipe.name}-{recipe.seed}" if out is None else Path(out)


def recipe_of(recipe: str | Path, **given: Unpack[RecipeArguments]) -> Recipe:
    """The recipe of a run as the arguments of :func:`train` describe it; rows and a loaded model are written."""
    changes: dict[str, Any] = {"train.ranks": 1}
    data, eval_data, prompt, reward = (given.get(key) for key in ("data", "eval_data", "prompt", "reward"))
    out = given.get("out")
    folder = (Path("runs") if out is None else Path(out).parent) / "data"
    if any(part is not None for part in (data, eval_data, prompt, reward)):
        changes |= _task(data, eval_data, prompt, reward, folder)
    changes |= given.get("config") or {}
    setting, model, stages = given.get("setting"), given.get("model"), given.get("stages")
    named = None if model is None else place_of_model(model, folder)
    made = load_recipe(str(recipe), changes, setting, named)
    if not stages:
        return made
    return load_recipe(str(recipe), {**changes, "explore": [*made.explore, *stages]}, setting, named)


def _task(data: Any, eval_data: Any, prompt: Any, reward: Any, folder: Path) -> dict[str, Any]:
    if isinstance(data, Task):
        if eval_data is not None or prompt is not None or reward is not None:
            raise UserError("data is a task, which has its own held-out problems, prompts and rewards")
        return {"task": data}
    if data is None or eval_data is None:
        missing = "data" if data is None else "eval_data"
        raise UserError(f"{missing} is missing: a table has training problems (data) and held-out ones (eval_data)")
    table: dict[str, Any] = {
        "train_data": table_of(data, folder, "data"),
        "heldout_data": table_of(eval_data, folder, "eval_data"),
    }
    if prompt is not None:
        table["prompt"] = prompt
    if reward is not None:
        table["verifier"] = verifier_of(reward)
    return {"task": {"table": table}}
