"""The section on how the runs are compared: the number of generated tokens up to which all runs are compared, and the
configuration keys that differ."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from outrider.report.comparing.cut_runs import ComparedRun
from outrider.report.content import CellValue, Section, TableBlock

_TEXT = (
    "Training is compared at equal generated tokens, {budget:,.0f}: the smallest total of all runs. Each run is cut "
    "after the first step that reaches this number; later steps are not on this page. Tokens of evaluations are not "
    "counted."
)
_UNTRAINED = "None of these runs has training with known token counts, so the runs are compared in full."
_TOLD = ("name", "model", "seed")  # keys that the table of runs shows
_LABELS = ("paper", "summary", "from_setting", "from_profile")


def section(compared: Sequence[ComparedRun], budget: float) -> Section:
    """Return a section on how the runs are compared, which runs do not end at ``budget`` tokens, and which settings
    differ."""
    sentences = [_UNTRAINED if math.isnan(budget) else _TEXT.format(budget=budget)]
    sentences += [sentence for one in compared if (sentence := _unequal(one, budget))]
    table = _settings(compared)
    return Section("compared", "How runs are compared", "\n\n".join(sentences), [], [table] if table else [])


def facts(compared: Sequence[ComparedRun]) -> dict[str, CellValue]:
    """Return the facts about each run that the page's table of runs shows. A key has the form "run: name", such as
    "grpo: steps"."""
    return {f"{one.name}: {name}": value for one in compared for name, value in _facts(one).items()}


def _facts(one: ComparedRun) -> dict[str, CellValue]:
    config, evaluation = one.run.config, one.evaluation
    facts: dict[str, CellValue] = {key: str(config[key]) for key in _TOLD if key in config}
    facts = {"recipe" if key == "name" else key: value for key, value in facts.items()}
    if one.total_steps:
        facts["steps"] = one.total_steps
        facts["tokens"] = None if math.isnan(one.total_tokens) else int(one.total_tokens)
    if evaluation is not None:
        facts["read at step"] = one.step
        if len(one.tokens_S):
            facts["tokens there"] = int(one.tokens_at(one.step or 0))
        facts["held-out problems"] = evaluation.overall.problems
        facts["samples of each"] = max((t.samples for t in evaluation.tallies), default=0) or None
    if one.run.notices:
        facts["not read" if one.run.has("files") else "notes"] = " ".join(one.run.notices)
    return facts


def _unequal(one: ComparedRun, budget: float) -> str:
    """Return a sentence if a run or its last evaluation is not compared at ``budget`` generated tokens, for example
    because the run has no training; otherwise ""."""
    if math.isnan(budget):
        return ""
    if not len(one.tokens_S):
        why = "has no token counts of its training" if one.total_steps else "has no training"
        return f"`{one.name}` {why}, so it is compared in full."
    if one.step is None:
        return f"`{one.name}` has no evaluation before the cut, so only its training is compared."
    if one.step < one.steps_S[-1]:
        there = one.tokens_at(one.step)
        return (
            f"The last evaluation of `{one.name}` is at step {one.step:,}, after {there:,.0f} tokens: its held-out "
            f"numbers are those after {there / budget:.0%} of the tokens."
        )
    return ""


def _settings(compared: Sequence[ComparedRun]) -> TableBlock | None:
    """Return the settings that differ among the compared runs."""
    return differing_settings({one.name: one.run.config for one in compared})


def differing_settings(configs: Mapping[str, Mapping[str, Any]]) -> TableBlock | None:
    """Return a table of the settings that differ between runs; None if no setting differs. Only top-level keys that all
    known configurations have are compared."""
    configs = {name: config for name, config in configs.items() if config}
    if len(configs) < 2:
        return None
    shared = [key for key in next(iter(configs.values())) if all(key in config for config in configs.values())]
    rows: list[list[CellValue]] = []
    for key in shared:
        if key not in (*_TOLD, *_LABELS):
            rows += _differing(key, [config[key] for config in configs.values()])
    return TableBlock("settings", "Settings that differ", ["setting", *configs], rows) if rows else None


def _differing(path: str, values: Sequence[Any]) -> list[list[CellValue]]:
    """Return a row for each key under ``path`` whose values differ between runs. Nested keys get separate rows.

    >>> _differing("learn", [{"lr": 1, "clip": {"low": 2}}, {"lr": 1, "clip": {"low": 3}}])
    [['learn.clip.low', '2', '3']]
    >>> _differing("credit", [{"main": ["opo"]}, {"main": ["rloo", "x"]}])
    [['credit.main', '[opo]', '[rloo, x]']]
    """
    if all(value == values[0] for value in values):
        return []
    if all(isinstance(value, list) and len(value) == len(values[0]) for value in values):
        values = [dict(enumerate(value)) for value in values]
    if all(isinstance(value, Mapping) for value in values) and set.intersection(*map(set, values)):
        keys = dict.fromkeys(key for value in values for key in value)
        return [row for key in keys for row in _differing(f"{path}.{key}", [value.get(key) for value in values])]
    return [[path, *map(_shown, values)]]


def _shown(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value).replace('"', "")
