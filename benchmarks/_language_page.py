"""The page of ``language_models.py``: what was measured, and each paper's claim beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from _language_parts import CLAIMS, PARTS, Claim

FOLDER = Path(__file__).parent / "results" / "language_models"
_COLUMNS = ("all", "greedy", "pass@1", "pass@8", "pass@64")


def page(results: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    """The whole page; of the kept results unless others are given."""
    if results is None:
        file = FOLDER / "results.json"
        results = json.loads(file.read_text()) if file.exists() else {}
    return "\n".join([*_head(results), "", *_claims(results), "", *_parts(results), ""])


def _head(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    cards = sorted({result["card"] for result in results.values()})
    if not any(card != "CPU" for card in cards):
        first = (
            "**Nothing on this page was measured on a GPU**: none was to be had. [The log](../../../docs/log.md) has "
        )
        first += "the rehearsal on a CPU."
    else:
        first = f"Measured on {', '.join(cards)}, {len(results)} of {len(PARTS)} parts."
    return [
        first,
        "",
        "# A language model of 0.5 B on GSM8K, the papers' methods at equal tokens",
        "",
        "Written by `python benchmarks/language_models.py page`; the script says how each part is run.",
    ]


def _claims(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    lines = ["## What the papers report, and what showed here", ""]
    lines += ["| paper | reports | compared | here | verdict |", "| --- | --- | --- | --- | --- |"]
    for claim in CLAIMS:
        compared = f"{claim.quantity}: `{claim.part}`, `{claim.against}`"
        lines.append(f"| {' | '.join([claim.paper, claim.says, compared, *_verdict(claim, results)])} |")
    return lines


def _verdict(claim: Claim, results: Mapping[str, Mapping[str, Any]]) -> tuple[str, str]:
    """The two values, and whether the claim shows: the intervals of the two do not overlap, which asks for more than a
    significant difference. Without intervals nothing shows: the page compares the values in words only."""
    pair = [results.get(name, {}).get(claim.quantity) for name in (claim.part, claim.against)]
    if any(value is None for value in pair):
        return "", "not measured"
    ours, theirs = (_bounds(value) for value in pair)
    here = f"{ours[1]:.3f}, {theirs[1]:.3f}"
    if ours[0] == ours[2]:
        return here, "lower" if ours[1] < theirs[1] else "higher" if ours[1] > theirs[1] else "equal"
    if ours[0] > theirs[2]:
        return here, "shows"
    return here, "does not show" if ours[1] <= theirs[1] else "higher, intervals overlap"


def _bounds(value: Any) -> tuple[float, float, float]:
    """Lower end, value and upper end of what a part ended with; of a change, those of the change above the start."""
    if not isinstance(value, Mapping):
        return value, value, value
    if "change" in value:
        start = value["before"]
        return start + value["low"], start + value["change"], start + value["high"]
    return value.get("low", value["after"]), value["after"], value.get("high", value["after"])


def _parts(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    lines = ["## Every part", ""]
    lines += [f"| part | steps | rollouts a problem | {' | '.join(_COLUMNS)} | entropy | card |"]
    lines += ["| --- " * (5 + len(_COLUMNS)) + "|"]
    for part in PARTS:
        result = results.get(part.name)
        if result is None:
            lines.append(f"| `{part.name}` | not run {'| ' * (3 + len(_COLUMNS))}|")
            continue
        cells = [_cell(result.get(name)) for name in _COLUMNS]
        lines.append(
            f"| `{part.name}` | {result['steps']} | {result['rollouts']:.1f} | {' | '.join(cells)} | "
            f"{result['entropy']['after']:.3f} | {result['card']} |"
        )
    return lines


def _cell(value: Any) -> str:
    if value is None:
        return ""
    low, middle, high = _bounds(value)
    return f"{middle:.3f} [{low:.3f}, {high:.3f}]"
