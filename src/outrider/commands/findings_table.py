"""Builds the table of a run's findings (problems that checks detected), which experiment trackers show."""

from __future__ import annotations

from pathlib import Path

from outrider.screen.tracker import TrackedTable

COLUMNS = ("finding", "severity", "sentence")


def findings_table(run: Path) -> TrackedTable:
    """Return the findings of the run in a folder, with the worst finding first. If there are no findings, the table has
    a single row.

    Raises:
        UserError: the run cannot be read.
    """
    from outrider.report.examined import examined  # imports DuckDB, which runs do not otherwise need

    found = examined(run)
    rows = [(finding.name, finding.severity, finding.sentence) for finding in found.findings]
    made = f"{len(found.checked)} checks found no problem, {len(found.skipped)} could not be made"
    return TrackedTable(COLUMNS, [*rows] if rows else [("none", "", made)])
