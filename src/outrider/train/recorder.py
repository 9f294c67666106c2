"""Writes a run's output to disk, to the trackers and to the screen during training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from outrider.config import Recipe
from outrider.config.tracking import TrackingOptions
from outrider.processes.clock import OVERLAPPED
from outrider.record import Group, Problem
from outrider.runs.folder import RunFolder
from outrider.screen.run_trackers import RunTrackers
from outrider.screen.screen import Screen
from outrider.screen.signal_warnings import SignalWatch
from outrider.screen.tracker import TrackedTable
from outrider.screen.trackers import open_trackers
from outrider.screen.verdict_warnings import VerdictWatch
from outrider.train.evaluate import Evaluated, write_evaluated


class Recorder:
    """Writes to the folder, the trackers and the screen of a run. On all ranks except rank 0, there is no folder, and
    the recorder has no effect."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.folder: RunFolder | None = None
        self._trackers = RunTrackers({}, TrackingOptions(), self.say)
        self._watch, self._signal = VerdictWatch(), SignalWatch()

    def track(self, folder: RunFolder, recipe: Recipe, step: int) -> None:
        """Open the recipe's trackers for a run that continues after ``step``."""
        train = recipe.train
        opened = open_trackers(train.trackers, folder.path, recipe.resolved(), step, train.tracking)
        self._trackers = RunTrackers(dict(zip(train.trackers, opened, strict=True)), train.tracking, self.say)

    def resumed(self, step: int, tokens: int, seconds: float) -> None:
        """Show the progress that the run had made before this process began."""
        self.screen.resumed(step, tokens, seconds)

    def report(self) -> None:
        """Plot the curves and print the table of a finished run."""
        if self.folder is not None:
            self.screen.report(self.folder)

    def send_findings(self, step: int, examine: Callable[[Path], TrackedTable]) -> None:
        """Compute the findings (detected issues) in a finished run's folder with ``examine``, and send them to the
        trackers."""
        if self.folder is not None:
            path = self.folder.path
            self._trackers.ended(step, lambda: examine(path))

    def say(self, notice: str) -> None:
        """Print a notice, and write it to the folder's notices.txt."""
        if self.folder is not None:
            self.screen.say(notice)
            self.folder.note(notice)

    def stepped(
        self,
        step: int,
        groups: Sequence[Group],
        metrics: Mapping[str, float],
        seconds: Mapping[str, float],
        trained_seconds: float,
        notices: Sequence[str],
    ) -> None:
        """Write a step to disk and to the trackers, and show it on the screen.

        Args:
            seconds: seconds of this step, by phase.
            trained_seconds: total training seconds of the run so far.
            notices: notices from the samplers.
        """
        if self.folder is None:
            return
        levels = {group.problem.id: group.problem.level for group in groups}
        self.folder.rollouts.write(step, [r for group in groups for r in group.rollouts], levels=levels)
        self.folder.append_metrics(step, metrics)
        taken = sum(s for phase, s in seconds.items() if not phase.startswith(OVERLAPPED))
        rate = metrics["step_tokens"] / max(taken, 1e-9)
        self.folder.append_timing(step, {**seconds, "tokens_per_second": rate})
        self._trackers.stepped(step, groups, metrics)
        self.screen.stepped(metrics, trained_seconds)
        for warning in [*notices, *self._watch.warnings(groups), *self._signal.warnings(groups, metrics)]:
            self.say(f"warning: step {step}: {warning}")

    def has_evaluation(self, step: int) -> bool:
        return self.folder is not None and step in self.folder.evaluations()

    def evaluated(self, step: int, evaluated: Evaluated, problems: Sequence[Problem], seconds: float) -> None:
        """Write an evaluation to disk and to the trackers, and show it on the screen."""
        if self.folder is not None:
            write_evaluated(self.folder, step, evaluated, problems, seconds)
            self._trackers.evaluated(step, evaluated.evaluation)
            self.screen.evaluated(step, evaluated.evaluation)

    def sync(self) -> None:
        """Flush rollouts and metrics, so that they survive a power cut."""
        if self.folder is not None:
            self.folder.sync()

    def close_trackers(self) -> None:
        self._trackers.close()

    def close(self) -> None:
        if self.folder is not None:
            self.folder.close()
