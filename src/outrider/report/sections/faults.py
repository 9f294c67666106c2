"""The section on faulty responses early and late in training. Faults are format violations, repetition, garbled text
and mixed languages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from outrider.measure.quality import RULES, Faults, faults
from outrider.report.content import CellValue, Figure, Section, Series, TableBlock
from outrider.report.data import SAMPLED, Columns, RunData
from outrider.report.sections.seen import cell, ends, in_percent, query, split

_MOST = 1000  # maximum number of responses that are read, at each end of training
_STEPS = 4  # number of steps at each end of training from which these responses are read
_MARKERS = (r"\boxed{", "####", "<answer>")

_TEXT = (
    "Faults that need no knowledge of the task: no answer or several answers, truncation, repetition, unreadable "
    "text, or a change of language. The table has the rule of each fault. The rules do not use the gold answer."
)
_TRAINED = " Training should reduce all faults. A fault that grows is being reinforced."


def section(run: RunData) -> Section | None:
    """Return a section with the definition of each fault, and the share of responses that have it, early and late in
    training.

    Rollouts that continue a prefix of another rollout are excluded, since their text is only the end of a response. The
    result is None if no response could be checked for any fault.
    """
    read = {name: columns for name, steps in ends(run, _STEPS).items() if len((columns := _read(run, steps))["text"])}
    marker = _marker(read.values())
    by_split = {
        name: faults(c["text"].tolist(), c["outcome"].tolist(), c["stop"].tolist(), marker) for name, c in read.items()
    }
    if not any(one.decided for rules in by_split.values() for one in rules):
        return None
    text = _TEXT + (_TRAINED if split(run) == "train" else "")
    return Section("faults", "Faults of responses", text, [_figure(by_split)], [_table(by_split, marker)])


def _read(run: RunData, steps: Sequence[int]) -> Columns:
    return query(
        run,
        f"SELECT text, outcome, stop FROM {'traces' if run.has('traces') else 'with_text'} "
        f"WHERE split = ? AND step IN (SELECT unnest(?)) AND {SAMPLED} AND parent IS NULL AND text IS NOT NULL "
        f"LIMIT {_MOST}",
        [split(run), list(steps)],
    )


def _marker(read: Iterable[Columns]) -> str:
    """Return the first answer marker in ``_MARKERS``, such as ``####``, that most successful responses contain; "" if
    there is none."""
    successes = [text for columns in read for text in columns["text"][columns["outcome"] == "correct"].tolist()]
    return next((mark for mark in _MARKERS if sum(mark in text for text in successes) > len(successes) / 2), "")


def _figure(by_split: Mapping[str, Sequence[Faults]]) -> Figure:
    bars = [
        Series(
            name,
            [one.rule.name for one in item],
            [one.share for one in item],
            hover=[f"of {one.decided:,}" for one in item],
        )
        for name, item in by_split.items()
    ]
    return Figure("faults-shares", "Responses with a fault", "bars", "fault", "share of responses", bars, percent="y")


def _table(by_split: Mapping[str, Sequence[Faults]], marker: str) -> TableBlock:
    columns = ["fault", *(text for name in by_split for text in (name, "decided")), "definition", "threshold"]
    body: list[list[CellValue]] = []
    for i, rule in enumerate(RULES):
        cells: list[CellValue] = [rule.name]
        for one in by_split.values():
            cells += [cell(one[i].share), one[i].decided]
        body.append([*cells, rule.definition, rule.threshold])
    marked = f"answers begin with `{marker}`, as in most successes" if marker else "no known answer marker was found"
    note = f"At most {_MOST:,} responses of {_STEPS} steps at each end; {marked}."
    title = "Rules, and shares of responses with each fault"
    return TableBlock("faults-rules", title, columns, body, note, in_percent(*by_split))
