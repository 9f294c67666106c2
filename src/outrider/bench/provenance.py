"""The section on how to reproduce a bench: its command, versions, seeds and files."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from outrider.bench.report import BenchReport
from outrider.report.content import Section

_FILES = (
    "Each run has a folder under `cells/`, with its rollouts, metrics and log. Browse all runs with `outrider view` "
    "on this folder; examine one with `outrider report`. `recipes/` has the recipes of the runs, `numbers.csv` every "
    "evaluation of every run, `tallies.csv` the successes on every problem in each evaluation, and `results.json` "
    "every number of this page."
)


def provenance(report: BenchReport, environment: Mapping[str, Any]) -> Section:
    """Return a section with the command, the seeds and the files of the bench. The section also lists the machine and
    the software versions for each time that the bench was started or continued."""
    begun = [
        f"Started {_where(environment)}.",
        *(f"Continued {_where(each)}." for each in environment.get("later", [])),
    ]
    seeds = ", ".join(map(str, report.bench.compared_seeds))
    about = f"{' '.join(begun)} Seeds: {seeds}; each seeds sampling and the order of problems."
    return Section("made", "How this was made", f"`{command(environment)}`\n\n{about}\n\n{_FILES}")


def command(environment: Mapping[str, Any]) -> str:
    """Return the command line that started the bench, as the user typed it."""
    return shlex.join(["outrider", *environment["command"][1:]])


def _where(environment: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in environment["versions"].items())
    commit = environment["git"] or "unknown"
    if commit.endswith("-dirty"):
        commit = f"{commit} with uncommitted changes (these numbers cannot be reproduced from a commit)"
    return f"{environment['started']} on {environment['platform']}; {versions}; commit {commit}"
