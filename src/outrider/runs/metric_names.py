"""Renames metrics of older Outrider versions to their current names when a file is read. Files do not change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

_PATTERNS = {
    re.compile(r"^(explore/.+/)told_(\d+_(?:rollouts|expected|variance|successes))$"): r"\1calibration_\2",
    re.compile(r"^(explore/(?:\d+-)?entropybranch/)fresh$"): r"\1from_prompt",
}
_OLD = {
    "sync/asked_again": "sync/retries",
    "unused/keep:_not_judged": "unused/keep:_unscorable",
    "unused/sift:_not_judged": "unused/sift:_unscorable",
    "spent/unused/keep:_not_judged": "spent/unused/keep:_unscorable",
    "spent/unused/sift:_not_judged": "spent/unused/sift:_unscorable",
}


def with_present_names(row: Mapping[str, float]) -> dict[str, float]:
    """Return a line of ``metrics.jsonl`` with the current names of its metrics.

    >>> with_present_names({"step": 1, "sync/asked_again": 2.0})
    {'step': 1, 'sync/retries': 2.0}
    >>> with_present_names({"explore/choose/told_0_rollouts": 8.0})
    {'explore/choose/calibration_0_rollouts': 8.0}
    >>> present_name("explore/1-entropybranch/fresh")
    'explore/1-entropybranch/from_prompt'
    """
    return {present_name(name): value for name, value in row.items()}


@cache  # cached, since every row of a run has the same names
def present_name(name: str) -> str:
    """Return the current name of a metric."""
    for pattern, present in _PATTERNS.items():
        name = pattern.sub(present, name)
    return _OLD.get(name, name)
