"""Builds a table for trackers with a run's findings (problems in the run that a check found)."""

from __future__ import annotations

from pathlib import Path

from outrider.screen.tracker import TrackedTable

COLUMNS = ("finding", "severity", "sentence")


def findings_table(run: Path) -> TrackedTable:
    """Return the findings of the run in a folder, worst first; without findings, a single row states this.

    Raises:
        UserError: the run cannot be read.
    """
    from outrider.report.examined import examined  # imports DuckDB, which a run needs for nothing else

    found = examined(run)
    rows = [(finding.name, finding.severity, finding.sentence) for finding in found.findings]
    made = f"{len(found.checked)} checks found no problem, {len(found.skipped)} could not be made"
    return TrackedTable(COLUMNS, [*rows] if rows else [("none", "", made)])
