"""Parses a task that is given to a function of the API or to the option ``--task``."""

from __future__ import annotations

from typing import Any

from outrider.config import read_yaml, text_of


def task_of(task: Any, where: str = "task") -> Any:
    """Parse a task that is given as text: a name, YAML such as ``{table: {…}}``, or the path of a YAML file. Return any
    other task unchanged.

    Raises:
        UserError: the YAML file does not exist, or cannot be parsed.

    >>> task_of("{table: {prompt: boxed}}"), task_of("countdown")
    ({'table': {'prompt': 'boxed'}}, 'countdown')
    """
    if not isinstance(task, str):
        return task
    if task.endswith((".yaml", ".yml")):
        file, text = text_of("recipe", task)
        return read_yaml(text, file)
    return read_yaml(task, f"{where} {task}")
