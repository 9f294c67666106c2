"""Formats an evaluation or a comparison as a table, for the terminal (with rich) or in markdown."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from rich import box
from rich.table import Table
from rich.text import Text

from outrider.measure.bootstrap import Interval
from outrider.measure.compare import Change, Comparison
from outrider.measure.evaluation import Evaluation, Summary
from outrider.measure.passk import shown_ks

_NONE = "—"
_UP, _DOWN, _UNSURE = "bold green", "bold red", "dim"


class _Cell(NamedTuple):
    text: str
    spread: str = ""
    tone: str = ""


class _Block(NamedTuple):
    """A part of a table for one difficulty level or test set: its label, number of problems, and rows (row label and
    cells).
    """

    level: str
    problems: int
    rows: list[tuple[str, list[_Cell]]]


def as_table(result: Evaluation | Comparison, title: str = "") -> Table:
    """Format a result as a table for ``rich.print``, at most 100 columns wide.

    The table has one row per test set (if there are several), one per difficulty level, and one for all problems. For a
    :class:`Comparison`, the table shows both evaluations and the paired change. A change is green or red if its
    interval excludes 0; otherwise, it is dim. A dash marks a value without data. A dagger marks a value that is
    computed from fewer problems than the row's number of problems. The caption shows the numbers of tokens and samples,
    majority@n, and how many responses have no answer or verdict.
    """
    notes = "\n".join(_notes(result))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, title=title or None, caption=notes)
    table.title_style, table.caption_style, table.caption_justify = "bold", "dim", "left"
    paired = isinstance(result, Comparison)
    table.add_column(_named(result))
    table.add_column("" if paired else "problems", justify="left" if paired else "right", no_wrap=True)
    for heading in _headings(result):
        table.add_column(heading, justify="right", overflow="fold")
    for block in _blocks(result):
        weight = "bold" if block.level == "all" else ""
        if paired or block.level == "all":
            table.add_section()
        for line, (label, cells) in enumerate(block.rows):
            level = Text(block.level, weight) if line == 0 else Text(f"{block.problems} problems" * (line == 1), "dim")
            second = Text(label, "dim") if paired else Text(str(block.problems))
            table.add_row(level, second, *(_styled(cell, weight) for cell in cells))
    return table


def as_markdown(result: Evaluation | Comparison) -> str:
    """Format a result as a markdown table. A change is bold if its interval excludes 0."""
    paired = isinstance(result, Comparison)
    headings = [_named(result), "problems", *([""] if paired else []), *_headings(result)]
    lines = [_line(headings), _line(["---", "---:", *(["---"] if paired else []), *["---:"] * len(_headings(result))])]
    for block in _blocks(result):
        for line, (label, cells) in enumerate(block.rows):
            first = [block.level, str(block.problems)] if line == 0 else ["", ""]
            texts = [f"**{c.text}**{c.spread}" if c.tone in (_UP, _DOWN) else c.text + c.spread for c in cells]
            lines.append(_line([*first, *([label] if paired else []), *texts]))
    return "\n".join([*lines, "", *(note + "  " for note in _notes(result))]).rstrip() + "\n"


def _named(result: Evaluation | Comparison) -> str:
    """Return the heading of the first column."""
    return "test set, level" if result.test_sets and result.levels else "test set" if result.test_sets else "level"


def _blocks(result: Evaluation | Comparison) -> Iterator[_Block]:
    """Yield one block per test set, then one per difficulty level, then the block for all problems."""
    ks = shown_ks(result.overall.pass_at)
    if isinstance(result, Evaluation):
        for summary in (*result.test_sets, *result.levels, result.overall):
            yield _Block(summary.level or "(none)", summary.problems, [("", _values(summary, ks))])
        return
    if result.before.test_sets and result.after.test_sets:
        before, after = ({s.level: s for s in e.test_sets} for e in (result.before, result.after))
        for change in result.test_sets:
            yield _pair(before[change.level], after[change.level], change, ks)
    before, after = ({s.level: s for s in e.levels} for e in (result.before, result.after))
    for change in result.levels:
        yield _pair(before[change.level], after[change.level], change, ks)
    yield _pair(result.before.overall, result.after.overall, result.overall, ks)


def _pair(before: Summary, after: Summary, change: Change, ks: list[int]) -> _Block:
    problems = max(before.problems, after.problems)
    intervals = [*(change.pass_at[k] for k in ks), change.greedy]
    plain = [after.entropy - before.entropy, after.truncated - before.truncated]
    changes = [*(_change(i, problems) for i in intervals), *(_Cell(_number(x, "+.3f"), tone=_UNSURE) for x in plain)]
    rows = [("before", _values(before, ks)), ("after", _values(after, ks)), ("change", changes)]
    return _Block(change.level or "(none)", problems, rows)


def _values(summary: Summary, ks: list[int]) -> list[_Cell]:
    intervals = [*(summary.pass_at[k] for k in ks), summary.greedy]
    return [
        *(_Cell(_number(i.value, ".3f"), _spread(i, summary.problems)) for i in intervals),
        *(_Cell(_number(x, ".3f")) for x in (summary.entropy, summary.truncated)),
    ]


def _change(interval: Interval, problems: int) -> _Cell:
    tone = (_UP if interval.value > 0 else _DOWN) if interval.excludes_zero else _UNSURE
    return _Cell(_number(interval.value, "+.3f"), _spread(interval, problems), tone)


def _number(value: float, form: str) -> str:
    return _NONE if math.isnan(value) else format(value, form)


def _spread(interval: Interval, problems: int) -> str:
    """Format half of the interval's width as `` ±.024``. If the interval comes from fewer than ``problems`` problems,
    the format is ``†±.024``.
    """
    half = (interval.high - interval.low) / 2
    mark = "†" if 0 < interval.problems < problems else ""
    return mark if math.isnan(half) else (mark or " ") + "±" + f"{half:.3f}".removeprefix("0")


def _headings(result: Evaluation | Comparison) -> list[str]:
    return [*(f"pass@{k}" for k in shown_ks(result.overall.pass_at)), "greedy", "entropy", "truncated"]


def _notes(result: Evaluation | Comparison) -> list[str]:
    """Return notes that explain the numbers of the table and are printed below it."""
    evaluation = result if isinstance(result, Evaluation) else result.after
    notes = []
    if evaluation.resamples:
        notes.append(f"±: half of the 95 % bootstrap interval over problems ({evaluation.resamples} resamples)")
    if isinstance(result, Evaluation):
        notes.append(_counts(result))
    else:
        notes.append(f"change: after minus before on {result.problems} problems; ± leaves out variation between seeds")
        if result.unpaired:
            notes.append(f"{result.unpaired} problems are in one evaluation only and enter no change")
        notes += [f"before: {_counts(result.before)}", f"after: {_counts(result.after)}"]
    if any(cell.spread.startswith("†") for block in _blocks(result) for _, row in block.rows for cell in row):
        notes.append("† on fewer problems: the others have too few responses that could be verified")
    return notes


def _counts(evaluation: Evaluation) -> str:
    total = evaluation.overall
    drawn = sorted({t.samples for t in evaluation.tallies})
    samples = str(drawn[0]) if len(drawn) == 1 else f"{drawn[0]} to {drawn[-1]}" if drawn else "no"
    parts = [
        f"{total.generated_tokens:,} tokens, {samples} samples per problem",
        f"majority {_number(total.majority.value, '.3f')}{_spread(total.majority, total.problems)}",
        f"unparseable {_number(total.unparseable, '.3f')}",
    ]
    if total.voteless:
        parts.append(f"{total.voteless} problems without a vote")
    if total.timeouts or total.errors:
        parts.append(f"not verified: {total.timeouts} timeouts, {total.errors} errors")
    return ", ".join(parts)


def _styled(cell: _Cell, weight: str) -> Text:
    return Text.assemble((cell.text, cell.tone or weight), (cell.spread, "dim"))


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
