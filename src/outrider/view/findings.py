"""Computes a run's findings (issues that a check detected) in the background, and links to the affected rollouts."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import NamedTuple

from outrider.report.findings import Examined, examine
from outrider.report.kind import with_evaluations
from outrider.view.opened_run import OpenedRun

EVIDENCE: Mapping[str, tuple[str, str]] = {
    "dead prompts": ("problems never solved", "problems?kind=never+solved"),
    "coverage narrowing": ("problems solved early and lost later", "problems?kind=lost"),
    "truncation": ("the longest rollouts", "rollouts?sort=-tokens"),
    "length drift": ("the longest rollouts", "rollouts?split=train&sort=-tokens"),
    "verifier suspicion": ("rollouts that could not be parsed", "rollouts?verdict=unparseable"),
    "entropy collapse": ("rollouts with the lowest entropy", "rollouts?split=train&sort=entropy"),
    "saturation": ("rollouts of the last steps", "rollouts?split=train&sort=-step"),
    "no rise": ("rollouts of the last steps", "rollouts?split=train&sort=-step"),
    "repeated problems": ("problems with the most rollouts", "problems?order=most+rollouts"),
    "reward without success": (
        "incorrect rollouts with the highest rewards",
        "rollouts?verdict=incorrect&sort=-reward",
    ),
    "stale sampler": ("rollouts of the last steps", "rollouts?split=train&sort=-step"),
}
"""A link for each finding, by name: a description of the affected rollouts or problems, and an address in the run."""


class FoundReport(NamedTuple):
    """The last report on a run, with the issues that checks detected.

    Attributes:
        version: :attr:`OpenedRun.version` of the run when it was last checked; empty before the first check.
        report: the report; None before the first report.
        problem: message of the exception that stopped the last check of the run; empty if there was none.
    """

    version: str
    report: Examined | None
    problem: str = ""


class Findings:
    """Findings of a run. When the run changes, a background thread recomputes the findings. Until the thread has
    finished, pages show the old findings."""

    def __init__(self, run: OpenedRun) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._found = FoundReport("", None)
        self._working = False

    def now(self) -> FoundReport:
        """Return the last report. If the run has changed, start to compute a new report in the background."""
        with self._lock:
            version = self._run.version
            if self._found.version != version and not self._working:
                self._working = True
                threading.Thread(target=self._make, args=(version,), daemon=True).start()
            return self._found

    @property
    def working(self) -> bool:
        return self._working

    def _make(self, version: str) -> None:
        try:
            with self._run.snapshot() as run:
                found = FoundReport(version, examine(with_evaluations(run)))
        except Exception as error:  # noqa: BLE001 - an unusual dump: show the error; a new version is checked again
            found = FoundReport(version, self._found.report, str(error) or type(error).__name__)
        with self._lock:
            self._found, self._working = found, False
