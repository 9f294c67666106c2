"""What a run with verl leaves of exploration on disk: a run folder without checkpoints. Experimental."""

from __future__ import annotations

from pathlib import Path

from outrider.config import Recipe, read_yaml
from outrider.config.older import recipe_of_run
from outrider.errors import UserError
from outrider.integrations.verl_step import MadeStep
from outrider.runs.folder import RunFolder


class Records:
    """Every rollout with its credit, and every step's metrics, as ``outrider report`` reads them.

    Nothing is written before the first step says where the run begins.
    """

    def __init__(self, path: Path, recipe: Recipe) -> None:
        self._path, self._recipe = path, recipe
        self._folder: RunFolder | None = None

    def begin(self, step: int) -> None:
        """Go on after ``step``, 0 for a run that begins; what a run that was interrupted has left later is set aside.

        Raises:
            UserError: there is no run where one should go on, or one with another recipe.
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
        """Put a step on disk, before verl trains with it."""
        assert self._folder is not None
        levels = {group.problem.id: group.problem.level for group in made.groups}
        self._folder.rollouts.write(step, [r for group in made.groups for r in group.rollouts], levels=levels)
        self._folder.append_metrics(step, made.metrics)

    def sync(self) -> None:
        """Wait until everything is on the disk."""
        if self._folder is not None:
            self._folder.sync()

    def close(self) -> None:
        """Let other processes write the folder."""
        if self._folder is not None:
            self._folder.close()
