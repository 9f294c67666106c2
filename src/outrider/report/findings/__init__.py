"""Checks for problems in a run, such as entropy collapse. A problem is reported as a finding. Each check has its own
file."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from outrider.report.content import Finding
from outrider.report.data import RunData
from outrider.report.findings import (
    coverage,
    dead_prompts,
    duplicates,
    entropy_collapse,
    length_drift,
    no_rise,
    repeated_problems,
    reward,
    saturation,
    stale_sampler,
    truncation,
    verifier,
)
from outrider.report.findings.base import Lacking


class Check(Protocol):
    """Interface of a check's module. ``NEEDS`` names the required data, without which ``find`` raises
    :class:`Lacking`."""

    NEEDS: str

    def find(self, run: RunData) -> Finding | None: ...


CHECKS: dict[str, Check] = {
    "entropy collapse": entropy_collapse,
    "coverage narrowing": coverage,
    "no rise": no_rise,
    "saturation": saturation,
    "dead prompts": dead_prompts,
    "truncation": truncation,
    "verifier suspicion": verifier,
    "length drift": length_drift,
    "duplicates": duplicates,
    "repeated problems": repeated_problems,
    "stale sampler": stale_sampler,
    "reward without success": reward,
}


class Examined(NamedTuple):
    """Result of all checks: findings (severity ``act`` first), names of the completed checks, and the data that were
    missing for each skipped check."""

    findings: list[Finding]
    checked: list[str]
    skipped: dict[str, str]


def examine(run: RunData) -> Examined:
    """Run every check in the order of ``CHECKS``."""
    findings, checked, skipped = [], [], {}
    for name, check in CHECKS.items():
        try:
            result = check.find(run)
        except Lacking as lacking:
            skipped[name] = str(lacking)
            continue
        checked.append(name)
        if result is not None:
            findings.append(result)
    return Examined(sorted(findings, key=lambda finding: finding.severity), checked, skipped)


__all__ = ["CHECKS", "Check", "Examined", "Lacking", "examine"]
