"""Prepares to resume a run: finds its checkpoint, compares its settings, and detects gaps in its records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from outrider.config import Recipe, dump_yaml, recipe_of_run
from outrider.errors import UserError
from outrider.record.disk import write_atomically
from outrider.runs.checkpoint import Checkpoint, Checkpoints
from outrider.runs.folder import RunFolder
from outrider.runs.whole import first_gap


class Resumer:
    """Finds the checkpoint from which a run resumes, and raises an error if the run's settings have changed.

    Args:
        recipe: the recipe with which the run is to be resumed.
        surroundings: function that returns all other inputs that determine a run's results, by name. They are the
            task's fingerprint, the number of ranks and the reference policy. The function is called only when needed,
            since computing a task's fingerprint may require loading the task's data.
    """

    def __init__(
        self, out: Path, checkpoints: Checkpoints, recipe: Recipe, surroundings: Callable[[], Mapping[str, Any]]
    ) -> None:
        self._out, self._checkpoints, self._recipe, self._surroundings = out, checkpoints, recipe, surroundings
        self._notices: list[str] = []

    @property
    def identity(self) -> dict[str, Any]:
        """The recipe and the other inputs that determine the run's results. Checkpoints store them, and a resumed run
        compares them with its own."""
        return {"config": self._recipe.resolved(), **self._surroundings()}

    def begun_anew(self, folder: RunFolder) -> list[str] | None:
        """Restart a run that was stopped before its first checkpoint, and return messages for the user. Return None if
        the run has a checkpoint."""
        if self._checkpoints.last is not None:
            return None
        folder.rewind(-1)
        rewritten = self._rewritten_config(folder, 0)
        return [*rewritten, "nothing was saved before the run was stopped: beginning anew"]

    def checkpoint(self, folder: RunFolder, force: bool) -> Checkpoint:
        """Return the newest checkpoint up to which the run's records are complete.

        Damaged checkpoints, and checkpoints later than the returned one, are moved away.

        Raises:
            UserError: no such checkpoint exists, or the run was started with other settings and ``force`` is False.
        """
        newest, self._notices = self._checkpoints.load_last()
        differences = self._differences(newest.state)
        if differences and not force:
            raise UserError(
                f"{self._out} was started with other settings ({'; '.join(differences)}); resume it with the same "
                "settings, or add --force (force=True in Python) to go on with the new ones"
            )
        checkpoint = self._whole(folder, newest, force)
        self._notices += differences
        return checkpoint

    def go_on(self, folder: RunFolder, checkpoint: Checkpoint) -> list[str]:
        """Move away all records of steps after the checkpoint, and return messages about the resume."""
        folder.rewind(checkpoint.step)
        rewritten = self._rewritten_config(folder, checkpoint.step)
        return [*rewritten, *self._notices, *folder.notices, f"going on after step {checkpoint.step}"]

    def _whole(self, folder: RunFolder, newest: Checkpoint, force: bool) -> Checkpoint:
        gap = first_gap(folder, newest.step)
        if gap is None:
            return newest
        self._notices.append(gap.sentence)
        if (earlier := self._checkpoints.undamaged_before(gap.step)) is not None:
            checkpoint, more = self._checkpoints.load_last(before=earlier + 1)
            self._notices += more
            return checkpoint
        if not force:
            raise UserError(
                f"{self._out}: {gap.sentence}, and no checkpoint is from before step {gap.step}; add --force "
                f"(force=True in Python) to go on after step {newest.step} with the gap"
            )
        return newest

    def _rewritten_config(self, folder: RunFolder, step: int) -> list[str]:
        """Write the current recipe to ``config.yaml``. If the previous recipe differs, keep a copy of it."""
        new, old = dump_yaml(self._recipe.resolved()).encode(), folder.config.read_bytes()
        if new != old:
            aside = self._out / "superseded"
            number = len(list(aside.glob("config-*.yaml"))) + 1
            write_atomically(aside / f"config-{number}-until-step-{step}.yaml", old)
            write_atomically(folder.config, new)
        if old.strip():
            return []
        return ["config.yaml was empty: it is written anew from this command, which the checkpoint agrees with"]

    def _differences(self, state: Mapping[str, Any]) -> list[str]:
        """Return the settings that have changed since the run's start, with one line per change."""
        try:
            lines = recipe_of_run(state["config"]).difference(self._recipe)
        except UserError as error:  # an external component is missing, or its options have changed
            lines = [str(error)]
        now = self._surroundings()
        return lines + [f"{key}: {state[key]} -> {value}" for key, value in now.items() if state[key] != value]
