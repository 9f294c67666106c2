"""Writes the rollouts and metrics of a verl run into a run folder, which has no checkpoints. Experimental."""

from __future__ import annotations

from pathlib import Path

from outrider.config import Recipe, read_yaml
from outrider.config.older import recipe_of_run
from outrider.errors import UserError
from outrider.integrations.verl_step import MadeStep
from outrider.runs.folder import RunFolder


class Records:
    """Writes every rollout with its advantages, and the metrics of every step, for ``outrider report``.

    No file is written before :meth:`begin`, whose ``step`` shows whether the run is new or resumed.
    """

    def __init__(self, path: Path, recipe: Recipe) -> None:
        self._path, self._recipe = path, recipe
        self._folder: RunFolder | None = None

    def begin(self, step: int) -> None:
        """Start recording after ``step``, which is 0 for a new run. Records that an interrupted run wrote after
        ``step`` are set aside.

        Raises:
            UserError: the folder contains no run to continue, or a run with another recipe.
        """
        if step == 0 and not RunFolder(self._path).config.is_file():
            self._folder = RunFolder.create(self._path, self._recipe.resolved(), "verl")
            return
        self._folder = folder = RunFolder.open(self._path)
        if other := recipe_of_run(read_yaml(folder.config.read_text(), str(folder.config))).difference(self._recipe):
            raise UserError(f"{self._path} holds a run that was started with other settings ({'; '.join(other)})")
        folder.rewind(step or -1)
        for notice in folder.notices:
            folder.note(notice)

    def write(self, step: int, made: MadeStep) -> None:
        """Write a step's records to disk before verl trains on the step."""
        assert self._folder is not None
        levels = {group.problem.id: group.problem.level for group in made.groups}
        self._folder.rollouts.write(step, [r for group in made.groups for r in group.rollouts], levels=levels)
        self._folder.append_metrics(step, made.metrics)

    def sync(self) -> None:
        """Wait until all records are on disk."""
        if self._folder is not None:
            self._folder.sync()

    def close(self) -> None:
        """Release the folder, so that other processes may write to it."""
        if self._folder is not None:
            self._folder.close()
