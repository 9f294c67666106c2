"""Files of several runs in one folder: kept apart by a label, or refused where they would share steps."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from outrider.errors import UserError
from outrider.importers.notes import Notes
from outrider.importers.text import as_text, stable_id


class EvaluationSource(NamedTuple):
    """The origin of a file of an evaluation: a run (a model, or the folder that a run writes to) and a task.

    Attributes:
        run, task: empty where not known.
        file: distinguishes several files of one run and task, such as a date.
    """

    run: str
    task: str
    file: str


def labels(sources: Mapping[Path, EvaluationSource], runs: str, notes: Notes) -> dict[Path, str]:
    """A label for every file: those of run, task and file that differ between files; ``""`` where none does.

    It becomes the level, and a part of the problem's id, so that no pass@k is taken over two models. ``runs`` is the
    word for several runs in the note.
    """
    several_runs = len({source.run for source in sources.values()}) > 1
    several_tasks = len({source.task for source in sources.values()}) > 1
    times = Counter((source.run, source.task) for source in sources.values())
    results = {}
    for path, source in sources.items():
        again = times[source.run, source.task] > 1
        parts = [source.run] * several_runs + [source.task] * several_tasks + [source.file] * again
        results[path] = "/".join(filter(None, parts))
    kept = list(dict.fromkeys(filter(None, results.values())))
    if kept:
        repeated = any(source.file and times[source.run, source.task] > 1 for source in sources.values())
        kinds = [f"{len({s.run for s in sources.values()})} {runs}"] * several_runs
        kinds += [f"{len({s.task for s in sources.values()})} tasks"] * several_tasks
        kinds += ["several files of one task"] * repeated
        mixed = several_runs or repeated
        notes.say(
            f"Samples of {' and '.join(kinds)} are kept apart, by level: {', '.join(kept)}"
            + ("; numbers over all problems mix them: to compare them, read them one by one." if mixed else ".")
        )
    return results


def kept_apart(values: dict[str, Any], label: str) -> dict[str, Any]:
    """A row's values with its problem and level marked by the label of its file."""
    if not label:
        return values
    problem = values.get("problem")
    if problem is None and values.get("prompt") is None:
        return values
    name = stable_id(as_text(values["prompt"])) if problem is None else problem
    return {**values, "problem": f"{label}/{name}", "level": label}


def folder_below(paths: Sequence[Path], without: str = "") -> dict[Path, str]:
    """Each file's folder, relative to the folder that holds them all; parts that match ``without`` are skipped.

    >>> list(folder_below([Path("x/a/all/1"), Path("x/b/all/1")], without="all").values())
    ['a', 'b']
    """
    parents = {path: [part for part in path.parent.parts if not re.fullmatch(without, part)] for path in paths}
    together = zip(*parents.values(), strict=False)
    shared = len(list(takewhile(lambda parts: len(set(parts)) == 1, together)))
    return {path: "/".join(parts[shared:]) for path, parts in parents.items()}


class OneRun:
    """Checks that a step of training comes from one run."""

    def __init__(self) -> None:
        self._from: dict[tuple[str, str], tuple[str, Path]] = {}

    def check(self, split: str, step: Any, run: str, path: Path) -> None:
        """Record where a step was read.

        Raises:
            UserError: it was read from another run before.
        """
        known, first = self._from.setdefault((split, str(step)), (run, path))
        if known != run:
            raise UserError(
                f"{path}: step {step} was read from {first} already, so these are two runs; read them one by one."
            )
