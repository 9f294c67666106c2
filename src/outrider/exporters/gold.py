"""Reads the gold answers of held-out problems from the run's task, since a run folder does not contain gold answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from outrider.config.older import recipe_of_run
from outrider.errors import UserError
from outrider.importers.notes import Notes
from outrider.importing import is_import_path
from outrider.tasks.heldout import heldout_problems


def gold_answers(config: Mapping[str, Any], notes: Notes) -> dict[str, str]:
    """Return the gold answers of a run's held-out problems as text, keyed by problem id. If they are unavailable,
    return an empty mapping and add a note.

    If a run's recipe uses the user's own code, the gold answers are skipped, because an export does not execute user
    code.
    """
    if not config:
        return {}
    outside = config.get("components") or [*import_paths({**config, "model": None})]
    if outside:
        named = ", ".join(outside)
        notes.say(f"Gold answers were skipped: an export runs no code of a run, and this one has some ({named}).")
        return {}
    try:
        recipe = recipe_of_run(config)
        problems = heldout_problems(recipe.task, recipe.evaluate)
    except (UserError, OSError) as error:
        notes.say(f"Gold answers were skipped: {error}")
        return {}
    return {problem.id: _text(problem.answer) for problem in problems if problem.answer is not None}


def import_paths(data: Any) -> Iterator[str]:
    """Yield every key and every value of nested plain data that looks like an import path.

    >>> list(import_paths({"explore": [{"my.py:Stage": {"n": 2}}], "task": {"verifier": "mine:score", "prompt": "a:"}}))
    ['my.py:Stage', 'mine:score']
    """
    if isinstance(data, Mapping):
        data = [*data, *data.values()]
    if isinstance(data, list):
        for one in data:
            yield from import_paths(one)
    elif isinstance(data, str) and is_import_path(data):
        yield data


def _text(answer: Any) -> str:
    """Return an answer as text. For a mapping with a single entry, return the value of this entry as text.

    >>> _text("7"), _text({"answer": "7"}), _text({"numbers": [1, 2], "target": 3})
    ('7', '7', '{"numbers": [1, 2], "target": 3}')
    """
    if isinstance(answer, Mapping) and len(answer) == 1:
        (answer,) = answer.values()
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, default=str)
