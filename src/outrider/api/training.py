"""``outrider.train``: one run of a recipe, from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from outrider.api.rewards import InProcess, verifier_of
from outrider.api.rows import table_of
from outrider.api.run import Run
from outrider.config import Recipe, load_recipe
from outrider.errors import UserError
from outrider.explore import Stage
from outrider.plugins import refuse_main
from outrider.tasks.task import Task


def train(
    recipe: str | Path = "grpo",
    *,
    setting: str | None = None,
    model: str | Path | None = None,
    data: Any = None,
    eval_data: Any = None,
    prompt: str | None = None,
    reward: Any = None,
    stages: Sequence[Stage | str | Mapping[str, Any]] = (),
    config: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
) -> Run:
    """Train a policy with a recipe, and return its run.

    The command ``outrider train`` calls the same code: equal options give equal weights. From Python a run has one
    process unless ``config={"train.ranks": n}`` asks for more.

    Args:
        recipe: a shipped recipe or a YAML file.
        setting: where it is tried: model, task, lengths, budget.
        model: a folder, a name on the hub, or ``base:<name>``, shipped. Without a setting the run is as where a recipe
            names its model: lengths and learning rate are the recipe's own, and ``data`` is needed.
        data: training problems: a path, ``hf:name``, a list of dicts, a pandas or polars frame, a ``datasets.Dataset``,
            or a task. Rows are written to ``data/`` beside the run folder.
        eval_data: held-out problems, likewise; needed beside rows of ``data``.
        prompt: the text with ``{column}`` of a row, or the name of a shipped template.
        reward: a function ``(problem, completion)`` that returns a number or a verdict, one with TRL's signature
            ``(completions, **columns)``, or a verifier as a recipe names it. A function of a notebook is called in this
            process, without a time limit.
        stages: added behind the recipe's own stages.
        config: values by dotted key, as ``{"learn.lr": 1e-6}``; what the arguments before say is written first.
        out: the run folder; ``runs/<recipe>-<seed>`` by default.
        resume: go on from the last checkpoint in the run folder.
        force: train although the memory estimate says no; resume although the configuration has changed.

    Raises:
        UserError: a mistake in an argument, named by the key of the recipe that it means.
    """
    made = recipe_of(
        recipe,
        setting=setting,
        model=model,
        data=data,
        eval_data=eval_data,
        prompt=prompt,
        reward=reward,
        stages=stages,
        config=config,
        out=out,
    )
    place = folder_of(made, out)
    from outrider.commands.train_command import train_command  # not at the top: it imports PyTorch

    refuse_main(made, made.train.ranks)
    if made.train.ranks != 1 and isinstance(getattr(made.task, "verifier", None), InProcess):
        raise UserError(
            "reward is a function that this process alone has, and train.ranks asks for others: put it into a module"
        )
    train_command(made, place, resume, force)
    return Run(place)


def folder_of(recipe: Recipe, out: str | Path | None) -> Path:
    """The run folder: ``out``, or ``runs/<recipe>-<seed>``."""
    return Path("runs") / f"{recipe.name}-{recipe.seed}" if out is None else Path(out)


def recipe_of(
    recipe: str | Path,
    *,
    setting: str | None = None,
    model: str | Path | None = None,
    data: Any = None,
    eval_data: Any = None,
    prompt: str | None = None,
    reward: Any = None,
    stages: Sequence[Stage | str | Mapping[str, Any]] = (),
    config: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
) -> Recipe:
    """The recipe of a run as the arguments of :func:`train` describe it; rows of ``data`` are written to a file."""
    changes: dict[str, Any] = {"train.ranks": 1}
    if any(part is not None for part in (data, eval_data, prompt, reward)):
        folder = (Path("runs") if out is None else Path(out).parent) / "data"
        changes |= _task(data, eval_data, prompt, reward, folder)
    changes |= config or {}
    named = None if model is None else str(model)
    made = load_recipe(str(recipe), changes, setting, named)
    if not stages:
        return made
    return load_recipe(str(recipe), {**changes, "explore": [*made.explore, *stages]}, setting, named)


def _task(data: Any, eval_data: Any, prompt: str | None, reward: Any, folder: Path) -> dict[str, Any]:
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
