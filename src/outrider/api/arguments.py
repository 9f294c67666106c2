"""Builds a recipe from the arguments of :func:`outrider.train` and :class:`outrider.Session`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from outrider.api.models import name_of_model, write_model
from outrider.api.rewards import InProcess, SumInProcess, verifier_of
from outrider.api.rows import file_of, write_rows
from outrider.config import Recipe, load_options, load_recipe
from outrider.errors import UserError
from outrider.explore import Stage
from outrider.importing import place_of_module
from outrider.tasks.task import Task


class RecipeArguments(TypedDict, total=False):
    """The arguments of :func:`outrider.train` that determine the recipe of the run."""

    setting: str | None
    model: Any
    data: Any
    eval_data: Any
    prompt: str | None
    reward: Any
    reward_weights: Sequence[float] | None
    success_at: float | None
    environment: Any
    stages: Sequence[Stage | str | Mapping[str, Any]]
    config: Mapping[str, Any] | None
    out: str | Path | None


def folder_of(recipe: Recipe, out: str | Path | None) -> Path:
    """Return the run folder: ``out``, or ``runs/<recipe>-<seed>``."""
    return Path("runs") / f"{recipe.name}-{recipe.seed}" if out is None else Path(out)


def recipe_of(recipe: str | Path | Recipe, **given: Unpack[RecipeArguments]) -> Recipe:
    """Return the recipe that the arguments of ``train`` describe. If data rows or a model are in memory, write them to
    disk."""
    config, stages, model = given.get("config") or {}, given.get("stages") or (), given.get("model")
    if not isinstance(config, Mapping):
        raise UserError(f"config is {type(config).__name__}: give a mapping, as {{'train.steps': 200}}")
    if isinstance(stages, str | Mapping | Stage):
        raise UserError("stages is one stage: give a list")
    out, setting = given.get("out"), given.get("setting")
    folder = (Path("runs") if out is None else Path(out).parent) / "data"
    rows: dict[Path, bytes] = {}
    changes: dict[str, Any] = {"train.ranks": 1}
    if any(given.get(key) is not None for key in _OF_TASK):
        changes["task"] = _task(given, folder, rows)

    def made(named: str | None) -> Recipe:
        if not stages:
            return _loaded(recipe, {**changes, **config}, setting, named)
        # add the stages before config, since config may set options of a stage or of a stream that a stage creates
        explore = config.get("explore")
        if explore is None:  # convert to plain data, so that config can change single options of the stages
            explore = _loaded(recipe, changes, setting, named).resolved()["explore"]
        rest = {key: value for key, value in config.items() if key != "explore"}
        return _loaded(recipe, {**changes, "explore": [*explore, *stages], **rest}, setting, named)

    try:  # check the recipe before writing, so that a mistake leaves no files
        found = made(None if model is None else name_of_model(model))
    except UserError as error:
        if str(error).endswith("task is missing"):
            raise UserError(f"{error}: give data=…, or setting='countdown' (a model alone brings no task)") from None
        raise
    for path, content in rows.items():
        write_rows(path, content)
    return made(write_model(model, folder)) if isinstance(model, tuple) else found


def _loaded(recipe: str | Path | Recipe, changes: dict[str, Any], setting: str | None, model: str | None) -> Recipe:
    if not isinstance(recipe, Recipe):
        return load_recipe(str(recipe), changes, setting, model)
    if setting is not None:
        raise UserError(f"setting {setting}: the recipe is loaded already; load_recipe takes its setting")
    named = {} if model is None else {"model": model}
    return load_options(Recipe, recipe.resolved(), {**named, **changes}, recipe.name)


_OF_TASK = ("data", "eval_data", "prompt", "reward", "reward_weights", "success_at", "environment")


def _task(given: RecipeArguments, folder: Path, rows: dict[Path, bytes]) -> Any:
    """Return what a recipe would contain under ``task``, or the task object that was given as ``data``. If data rows
    are in memory, add them to ``rows``, keyed by the path of the file to write."""
    data, eval_data = given.get("data"), given.get("eval_data")
    prompt, reward, environment = given.get("prompt"), given.get("reward"), given.get("environment")
    if isinstance(data, Task):
        if others := [key for key in _OF_TASK[1:] if given.get(key) is not None]:
            raise UserError(
                f"{others[0]} is given, but data is a task, which has its own problems, prompts and rewards"
            )
        return data
    if data is None or eval_data is None:
        missing = "data" if data is None else "eval_data"
        raise UserError(f"{missing} is missing: a table has training problems (data) and held-out ones (eval_data)")
    table: dict[str, Any] = {}
    for key, name, part in (("train_data", "data", data), ("heldout_data", "eval_data", eval_data)):
        if isinstance(part, str | Path):
            table[key] = str(part)
        else:
            path, content = file_of(part, folder, name)
            rows[path], table[key] = content, str(path)
    if prompt is not None:
        table["prompt"] = prompt
    verifier = verifier_of(reward, given.get("reward_weights"), given.get("success_at"))
    if verifier is not None:
        table["verifier"] = verifier
    if environment is None:
        return {"table": table}
    if isinstance(verifier, InProcess | SumInProcess):
        raise UserError(
            "reward is a function that this process alone has, and environments run in others: put it into a module, "
            "or let the environment give the verdict"
        )
    return {"environment": {"environment": _place_of(environment), "problems": table}}


def _place_of(environment: Any) -> str:
    """Return the import path of an environment's class."""
    if isinstance(environment, str):
        return environment
    if not isinstance(environment, type):
        raise UserError(f"environment is {type(environment).__name__}: give its class, or the import path of it")
    if environment.__module__ == "__main__" or "<locals>" in environment.__qualname__:
        raise UserError(
            f"environment {environment.__qualname__} is defined in this script or notebook, which the processes of "
            "environments do not import: put it into a file"
        )
    return f"{place_of_module(environment)}:{environment.__qualname__}"
