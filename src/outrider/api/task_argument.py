"""A task as the functions and ``--task`` take it."""

from __future__ import annotations

from typing import Any

from outrider.config import read_yaml, text_of


def task_of(task: Any, where: str = "task") -> Any:
    """The task as a recipe has it: a text is a name, YAML (``{table: {…}}``) or a YAML file; anything else itself.

    Raises:
        UserError: the file is not there, or it is no YAML.

    >>> task_of("{table: {prompt: boxed}}"), task_of("countdown")
    ({'table': {'prompt': 'boxed'}}, 'countdown')
    """
    if not isinstance(task, str):
        return task
    if task.endswith((".yaml", ".yml")):
        file, text = text_of("recipe", task)
        return read_yaml(text, file)
    return read_yaml(task, f"{where} {task}")
