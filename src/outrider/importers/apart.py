"""Distinguishes several runs in one folder: labels evaluation files by run, and rejects a training step that occurs in
two runs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from outrider.errors import UserError
from outrider.importers.notes import Notes


class EvaluationSource(NamedTuple):
    """The source of an evaluation file: the run that produced the file, and the task or environment that was evaluated.

    Attributes:
        run: name of the evaluated model or, for some formats, of the output folder; empty if unknown.
        task: task or environment; empty if unknown.
        file: text that distinguishes several files of one run and task, such as a date.
    """

    run: str
    task: str
    file: str


class EvaluationLabel(NamedTuple):
    """The model and test set that distinguish a file's responses from responses in other files.

    A field is "" if all files have the same value. ``model`` is the file's run. If a run and task have several files,
    ``EvaluationSource.file`` is appended to ``model``.
    """

    model: str
    test_set: str


def labels(sources: Mapping[Path, EvaluationSource], notes: Notes) -> dict[Path, EvaluationLabel]:
    """Return a label for every file, built from the fields (run, task, file) that differ between files.

    Importers write a label's ``model`` and ``test_set`` into every row of the file, and into the problem ids.
    Therefore, no pass@k estimate mixes the responses of two models.
    """
    several_runs = len({source.run for source in sources.values()}) > 1
    several_tasks = len({source.task for source in sources.values()}) > 1
    times = Counter((source.run, source.task) for source in sources.values())
    results = {}
    for path, source in sources.items():
        again = times[source.run, source.task] > 1
        model = "/".join(filter(None, [source.run] * several_runs + [source.file] * again))
        results[path] = EvaluationLabel(model, source.task if several_tasks else "")
    models, tasks = (list(dict.fromkeys(filter(None, names))) for names in zip(*results.values(), strict=True))
    if models:
        what = "models" if several_runs else "files of one task"
        notes.say(f"Samples of {len(models)} {what} are kept separate: {', '.join(models)}.")
    if tasks:
        notes.say(f"Samples come from {len(tasks)} test sets: {', '.join(tasks)}.")
    return results


def kept_apart(values: dict[str, Any], label: EvaluationLabel) -> dict[str, Any]:
    """Add a file's model and test set to the values of one of the file's rows."""
    return values | {name: value for name, value in label._asdict().items() if value}


def folder_below(paths: Sequence[Path], without: str = "") -> dict[Path, str]:
    """Return each file's folder, relative to the common parent folder. Parts of the path that match ``without`` are
    omitted.

    >>> list(folder_below([Path("x/a/all/1"), Path("x/b/all/1")], without="all").values())
    ['a', 'b']
    """
    parents = {path: [part for part in path.parent.parts if not re.fullmatch(without, part)] for path in paths}
    together = zip(*parents.values(), strict=False)
    shared = len(list(takewhile(lambda parts: len(set(parts)) == 1, together)))
    return {path: "/".join(parts[shared:]) for path, parts in parents.items()}


class OneRun:
    """Checks that each training step comes from a single run."""

    def __init__(self) -> None:
        self._from: dict[tuple[str, str], tuple[str, Path]] = {}

    def check(self, split: str, step: Any, run: str, path: Path) -> None:
        """Record the run from which a step was read.

        Raises:
            UserError: the step was already read from another run.
        """
        known, first = self._from.setdefault((split, str(step)), (run, path))
        if known != run:
            raise UserError(
                f"{path}: step {step} was already read from {first}, so these are two runs; read them separately."
            )
