"""Formats the results of a validation as a table for the screen, as a page in Markdown, and as plain data."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.table import Table

from outrider.validate.check import MOST_PAIRS, Checked, Repeats, TaskReport
from outrider.validate.grade import VerifiedResponse
from outrider.validate.near import NearPair

SHOWN = 50  # maximum number of near pairs on the page; the JSON data contain all pairs
LONGEST_CELL = 100
HEADINGS = (
    "side",
    "problems",
    "refused",
    "verified",
    "accepted",
    "foreign",
    "same",
    "near",
    "tokens",
    "longest",
    "too long",
)


def as_table(report: TaskReport) -> Table:
    """Return a table of counts, with one column for the training data and one for the held-out data."""
    table = Table(box=box.SIMPLE_HEAD, title=f"{report.options.task.name}: {verdict(report)}", title_justify="left")
    first, *others = zip(HEADINGS, *map(counts, report.sides), strict=True)
    for k, heading in enumerate(first):
        table.add_column(heading, justify="left" if k == 0 else "right", no_wrap=True)
    for row in others:
        table.add_row(*row)
    return table


def as_markdown(report: TaskReport) -> str:
    """Return the Markdown page: counts, rejected answers, unusable rows, repeated texts, difficulty levels and long
    prompts."""
    options = report.options
    parts = [
        f"# Validation of the task {options.task.name}",
        f"**{verdict(report).capitalize()}.** Up to {options.rejected:.1%} of the gold answers of a side may be "
        "rejected. Refused: rows that the task cannot use. Verified: gold answers that can be verified. Foreign: "
        "gold answers of the next problem, written differently, that are also accepted as correct. Same and near: "
        f"pairs of texts; near if at least {options.near:.0%} of the {options.ngram}-grams of either are in both. "
        "Tokens: median prompt length. Too long: prompts that leave too little context for a response.",
        markdown(HEADINGS, [counts(checked) for checked in report.sides]),
    ]
    for checked in report.sides:
        parts += side_sections(checked)
    if report.refused:
        sentences = "\n".join(f"- {code(sentence, 300)}" for sentence in report.refused)
        parts += ["## Errors that would stop a run", sentences]
    if report.environments is not None:
        parts += ["## Environments", f"{report.environments.sentence}."]
    if report.across is not None:
        parts += [
            "## Overlap of training and held-out problems",
            overlap(report.across),
            *repeat_sections(report.across),
        ]
    return "\n\n".join(parts) + "\n"


def side_sections(checked: Checked) -> list[str]:
    """Return the page's sections about the training or held-out data."""
    side, lengths = checked.side, checked.lengths
    parts = [f"## {side.name.capitalize()}: `{side.source}`"]
    if checked.graded.rejected:
        rows = [verified_row(one) for one in checked.graded.rejected]
        parts += [
            "Gold answers that the task's own verifier rejects (false rejects, or wrong gold answers):",
            markdown(VERIFIED, rows),
        ]
    if checked.graded.foreign:
        rows = [verified_row(one) for one in checked.graded.foreign[:SHOWN]]
        some = f", the first {SHOWN} of {len(checked.graded.foreign):,}" if len(checked.graded.foreign) > SHOWN else ""
        parts += [
            f"Gold answers of the next problem that are accepted here (possible false accepts){some}:",
            markdown(VERIFIED, rows),
        ]
    if checked.graded.without:
        parts.append(f"{checked.graded.without:,} problems have no verifiable gold answer.")
    if side.refused:
        parts += ["Rows that the task refuses:", "\n".join(f"- {code(sentence, 300)}" for sentence in side.refused)]
    if side.skipped:
        parts.append(f"{side.skipped:,} rows without an answer or a question are skipped (skip: empty).")
    parts += repeat_sections(checked.within)
    if set(checked.levels) != {""}:
        rows = [(level or "(none)", f"{n:,}") for level, n in sorted(checked.levels.items())]
        parts += ["Problems by level:", markdown(("level", "problems"), rows)]
    if lengths is not None and lengths.too_long:
        rows = [(entry.place, entry.problem.id, f"{n:,}") for entry, n in lengths.too_long]
        context = f"Prompts that leave too few of the context's {lengths.context:,} tokens:"
        parts += [context, markdown(("place", "id", "tokens"), rows)]
    return parts if len(parts) > 1 else [*parts, "Nothing to report."]


def repeat_sections(repeats: Repeats) -> list[str]:
    """Return the sections on repeated texts. Pairs of equal texts come first, beginning with those whose answers
    differ. Pairs of nearly equal texts follow, beginning with the most similar."""
    parts = []
    same = sorted(repeats.same, key=repeats.one_answer)
    near = sorted(repeats.near, key=lambda pair: -pair.similarity)
    for kind, pairs, shown in (("The same text", same, len(same)), ("Nearly the same text", near, SHOWN)):
        if pairs:
            some = f", the first {shown} of {len(pairs):,} pairs" if len(pairs) > shown else ""
            parts += [f"{kind}{some}:", markdown(PAIRS, [pair_row(repeats, pair) for pair in pairs[:shown]])]
    return parts


def verdict(report: TaskReport) -> str:
    """Return a sentence that says whether the task passes."""
    if report.passes:
        return "passes" if any(c.graded.verified for c in report.sides) else "no gold answers to verify"
    return "does not pass"


def counts(checked: Checked) -> tuple[str, ...]:
    """Return the counts of the training or held-out data as table cells."""
    side, graded, within, lengths = checked.side, checked.graded, checked.within, checked.lengths
    near = f"over {MOST_PAIRS:,}" if within.cut else f"{len(within.near):,}"
    numbers = [len(side.entries), len(side.refused), graded.verified]
    verified = "—" if math.isnan(graded.accepted) else percent(graded.accepted)
    tokens = ["—"] * 3
    if lengths is not None:
        middle = f"{statistics.median(lengths.tokens):.0f}" if lengths.tokens else "—"
        tokens = [middle, f"{max(lengths.tokens, default=0):,}", f"{len(lengths.too_long):,}"]
    pairs = (f"{len(graded.foreign):,}", f"{len(within.same):,}", near)
    return (side.name, *(f"{n:,}" for n in numbers), verified, *pairs, *tokens)


def percent(share: float) -> str:
    """Format a share as a percentage. The percentage is rounded down, so that only a share of 1 gives 100 %.

    >>> percent(0.99999), percent(1.0)
    ('99.99 %', '100.00 %')
    """
    return f"{math.floor(share * 10_000 + 1e-9) / 100:.2f} %"


def overlap(across: Repeats) -> str:
    """Return a sentence about problems that are in both the training and the held-out data."""
    heldout = len(across.second)
    equal, close = ({pair.second for pair in pairs} for pairs in (across.same, across.near))
    cut = f" (stopped at {MOST_PAIRS:,} pairs)" if across.cut else ""
    return (
        f"Held-out problems that are also in the training set: {len(equal):,} of {heldout:,} identical, "
        f"{len(close - equal):,} more nearly identical{cut}."
    )


VERIFIED = ("place", "id", "gold answer", "response", "verdict", "reason")
PAIRS = ("first", "second", "similarity", "gold answers", "text of the second")


def verified_row(verified_response: VerifiedResponse) -> tuple[str, ...]:
    """Return a response and its verdict as the cells of a row."""
    entry, response, verified, right = verified_response
    answers = (code(right), "the same" if response == right else code(response))
    return (entry.place, entry.problem.id, *answers, verified.outcome.value, code(verified.detail))


def pair_row(repeats: Repeats, pair: NearPair) -> tuple[str, ...]:
    """Return a pair of entries as the cells of a row."""
    first, second = repeats.first[pair.first], repeats.second[pair.second]
    answers = "equal" if repeats.one_answer(pair) else "different"
    return (first.place, second.place, f"{pair.similarity:.2f}", answers, code(second.text))


def code(text: str, longest: int = LONGEST_CELL) -> str:
    """Format a text as inline code on one line; a long text is truncated with an ellipsis.

    >>> code("a`b|c\\nd"), code("")
    ("`a'b\\\\|c d`", '')
    """
    line = " ".join(text.replace("`", "'").replace("|", "\\|").split())
    return f"`{line if len(line) <= longest else line[: longest - 1] + '…'}`" if line else ""


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def as_data(report: TaskReport) -> dict[str, Any]:
    """Return all results as plain JSON data. Some keys keep the names that they had in the first version of
    ``validate.json`` (``judged``, ``worlds``)."""
    return {
        "asked": report.options.model_dump(mode="json"),
        "passes": report.passes,
        "refused": list(report.refused),
        "sides": [side_data(checked) for checked in report.sides],
        "across": None if report.across is None else repeat_data(report.across),
        "worlds": None if report.environments is None else report.environments._asdict(),
    }


def side_data(checked: Checked) -> dict[str, Any]:
    """Return the results for the training or held-out data as plain data."""
    side, graded, lengths = checked.side, checked.graded, checked.lengths
    return {
        "name": side.name,
        "source": side.source,
        "problems": len(side.entries),
        "refused": side.refused,
        "skipped": side.skipped,
        "judged": graded.verified,
        "without": graded.without,
        "rejected": [verified_data(one) for one in graded.rejected],
        "foreign": [verified_data(one) for one in graded.foreign],
        "within": repeat_data(checked.within),
        "levels": dict(sorted(checked.levels.items())),
        "tokens": None if lengths is None else lengths.tokens,
        "too_long": [] if lengths is None else [entry.place for entry, _ in lengths.too_long],
    }


def verified_data(verified_response: VerifiedResponse) -> dict[str, Any]:
    """Return a response and its verdict as plain data."""
    entry, response, verdict, right = verified_response
    named = {"place": entry.place, "id": entry.problem.id, "right": right, "response": response}
    return {**named, "verdict": verdict.outcome.value, "detail": verdict.detail}


def repeat_data(repeats: Repeats) -> dict[str, Any]:
    """Return pairs of repeated texts as plain data."""

    def row(pair: NearPair) -> dict[str, Any]:
        places = {"first": repeats.first[pair.first].place, "second": repeats.second[pair.second].place}
        return {**places, "similarity": pair.similarity, "same_answer": repeats.one_answer(pair)}

    return {"same": [*map(row, repeats.same)], "near": [*map(row, repeats.near)], "cut": repeats.cut}
