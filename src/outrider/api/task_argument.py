"""Parses a task given to a function or to ``--task``."""

from __future__ import annotations

from typing import Any

from outrider.config import read_yaml, text_of


def task_of(task: Any, where: str = "task") -> Any:
    """Return a task in recipe form: text is a name, YAML (``{table: {…}}``) or a YAML file; other values do not change.

    Raises:
        UserError: the file does not exist, or is not YAML.

    >>> task_of("{table: {prompt: boxed}}"), task_of("countdown")
    ({'table': {'prompt': 'boxed'}}, 'countdown')
    """
    if not isinstance(task, str):
        return task
    if task.endswith((".yaml", ".yml")):
        file, text = text_of("recipe", task)
        return read_yaml(text, file)
    return read_yaml(task, f"{where} {task}")
