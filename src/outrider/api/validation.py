"""``outrider.validate``, a Python function that finds mistakes in a task's data before a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.config import Recipe, Validate, load_options, load_recipe, read_yaml, text_of
from outrider.errors import UserError
from outrider.importing import is_import_path
from outrider.model.options import PolicyOptions
from outrider.tasks import OLD_TASKS, TASKS

if TYPE_CHECKING:
    from outrider.validate.check import TaskReport


def validate(
    task: Any,
    *,
    setting: str | None = None,
    model: str | Path | None = None,
    config: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
) -> TaskReport:
    """Check a task's data for wrong gold answers, duplicates, held-out problems in the training data, and long prompts.

    ``validate(…).passes`` is True if a run can use all data. The command ``outrider validate`` calls the same code.

    Args:
        task: a task object, or what a recipe would contain under ``task``, such as ``"countdown"`` or ``{"table":
            {…}}``. A YAML file with a task, or a recipe, is also accepted.
        setting: if ``task`` is a recipe, the name of a setting that defines the recipe's model and task.
        model: model whose tokenizer counts the tokens of the prompts.
        config: option values by dotted key, such as ``{"near": 0.8}``.
        out: folder for ``validate.md`` and ``validate.json``; None: no files are written.

    Raises:
        UserError: an argument is invalid, or a file or the model cannot be read.
    """
    from outrider.validate.validate_command import check_task  # imported here, since it imports transformers

    data = task_data(str(task), setting) if isinstance(task, str | Path) else {"task": task}
    if model is not None:
        data["model"] = str(model)
    options = load_options(Validate, data, config or {}, "validate")
    return check_task(options, None if out is None else Path(out))


def task_data(text: str, setting: str | None) -> dict[str, Any]:
    """Return, as plain data, the task that ``text`` names. If ``text`` names a recipe, add the recipe's model and
    response length.

    Raises:
        UserError: the task or recipe does not exist, or ``setting`` is given although ``text`` names a task.
    """
    if (task := _task(text)) is None:
        return _of_recipe(load_recipe(text, setting=setting))
    if setting is not None:
        raise UserError(f"setting {setting}: {text} is a task already; a setting is for a recipe")
    return {"task": task}


def _task(text: str) -> Any:
    """Return, as plain data, the task that ``text`` names; None if ``text`` names a recipe."""
    if text in TASKS or text.lstrip().startswith("{"):
        return read_yaml(text, f"TASK {text}")
    if is_import_path(text):
        return text
    file, written = text_of("recipe", text)
    data = read_yaml(written, file)
    return data if isinstance(data, dict) and len(data) == 1 and set(data) <= {*TASKS, *OLD_TASKS} else None


def _of_recipe(recipe: Recipe) -> dict[str, Any]:
    resolved = recipe.resolved()
    policy = {key: resolved["policy"][key] for key in PolicyOptions.model_fields}
    limits = {
        "max_tokens": recipe.sample.max_tokens,
        "step_problems": recipe.train.problems,
        "evaluate": resolved["evaluate"],
    }
    return {"task": resolved["task"], "model": recipe.model, "policy": policy, **limits}
