"""Checks a task's training and held-out data: gold answers, repeated problems, levels and prompt lengths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from outrider.config import Validate
from outrider.config.train import EvaluateOptions
from outrider.preflight.check import Wanted, preflight
from outrider.preflight.prompts import Prompts
from outrider.record.normalised import normalised
from outrider.tasks import Suite, Table, Task
from outrider.tasks.turn_task import TurnTask
from outrider.validate.environments import EnvironmentsCompared, compare_environments
from outrider.validate.grade import Graded, grade
from outrider.validate.lengths import PromptLengths, measure
from outrider.validate.near import Grams, NearPair, grams, near, same
from outrider.validate.sides import TRAIN, Side, SideEntry, read_sides

MOST_PAIRS = 100_000  # maximum listed near pairs; a set with more pairs was probably generated from a template


class SideTexts(NamedTuple):
    """The entries of a side (training or held-out data), with the n-grams of their texts. ``grams`` is None if the task
    generates the texts."""

    entries: Sequence[SideEntry]
    grams: list[Grams] | None


class Repeats(NamedTuple):
    """Pairs of equal entries (``same``), pairs of nearly equal entries (``near``), and whether the list of near pairs
    was truncated (``cut``)."""

    same: list[NearPair]
    near: list[NearPair]
    cut: bool
    first: Sequence[SideEntry]
    second: Sequence[SideEntry]

    def one_answer(self, pair: NearPair) -> bool:
        """Return whether both entries of a pair have the same gold answer."""
        return bool(self.first[pair.first].problem.answer == self.second[pair.second].problem.answer)


class Checked(NamedTuple):
    """The results of the checks for one side of a task (training or held-out data)."""

    side: Side
    graded: Graded
    within: Repeats
    levels: Counter[str]
    lengths: PromptLengths | None


class TaskReport(NamedTuple):
    """The results for a task: those of its training and held-out data (``sides``), and the problems that are in
    both."""

    options: Validate
    sides: list[Checked]
    across: Repeats | None
    environments: EnvironmentsCompared | None = None
    refused: Sequence[str] = ()
    """Errors that would stop training or evaluation, in addition to unusable rows."""

    def __repr__(self) -> str:
        sides = "; ".join(
            f"{c.side.name}: {len(c.side.entries)} problems, {len(c.side.refused)} rows refused, "
            f"{len(c.graded.rejected)} of {c.graded.verified} gold answers rejected"
            for c in self.sides
        )
        return f"TaskReport({'passes' if self.passes else 'fails'}: {sides})"

    @property
    def passes(self) -> bool:
        """Whether all rows are usable, no other error would stop a run, and no environment fails. The share of rejected
        gold answers must be at most ``options.rejected`` in the training data and in the held-out data."""
        share = self.options.rejected
        alive = self.environments is None or not self.environments.failed
        return (
            alive
            and not self.refused
            and all(not c.side.refused and len(c.graded.rejected) <= share * c.graded.verified for c in self.sides)
        )


def check(options: Validate) -> TaskReport:
    """Check a task, then end the task's processes.

    Raises:
        UserError: a file or the model cannot be read, or the training or held-out data has no usable row.
    """
    prompts = None if options.model is None else Prompts(options.model, options.policy)
    asked = options.task
    task = asked.table if isinstance(asked, TurnTask) else asked
    environments = None
    try:
        sides = read_sides(task, options.problems)
        n = options.ngram if isinstance(task, Table | Suite) else None  # other tasks generate their texts
        texts = [texts_of(side.entries, n) for side in sides]
        checked = [
            check_side(task, side, of, options.near, prompts, options.max_tokens)
            for side, of in zip(sides, texts, strict=True)
        ]
        refused = _refused(options, sides)
        if isinstance(asked, TurnTask):
            environments = compare_environments(asked, [entry.problem for entry in sides[0].entries])
    finally:
        asked.close()
    across = repeats(texts[0], texts[1], options.near) if len(texts) == 2 else None
    return TaskReport(options, checked, across, environments, refused)


def _refused(options: Validate, sides: Sequence[Side]) -> list[str]:
    """Return the errors that would stop a run, except errors about unusable rows, which ``sides`` already contains."""
    asked = options.evaluate or EvaluateOptions(problems=max(len(side.entries) for side in sides))
    trains = any(side.name == TRAIN for side in sides)
    wanted = Wanted((options.step_problems or 1) if trains else None, asked, options.max_tokens)
    found = preflight(options.task, wanted, options.model, options.policy)
    known = {sentence for side in sides for sentence in side.refused}
    return [sentence for sentence in found.refused if sentence not in known]


def check_side(
    task: Task, side: Side, texts: SideTexts, least: float, prompts: Prompts | None, max_tokens: int
) -> Checked:
    """Run all checks that need only one side (training or held-out data)."""
    levels = Counter(entry.problem.level for entry in side.entries)
    lengths = None if prompts is None else measure(prompts, side.entries, max_tokens)
    return Checked(side, grade(task, side.entries), repeats(texts, None, least), levels, lengths)


def texts_of(entries: Sequence[SideEntry], ngram: int | None) -> SideTexts:
    """Prepare the texts of the training or held-out data for comparison. If ``ngram`` is None, the comparison finds
    only equal texts."""
    return SideTexts(entries, None if ngram is None else [grams(entry.text, ngram) for entry in entries])


def repeats(texts: SideTexts, others: SideTexts | None, least: float) -> Repeats:
    """Find repeated texts within ``texts`` or, if ``others`` is given, between ``texts`` and ``others``. Pairs of equal
    texts are not listed again as nearly equal."""
    second = texts if others is None else others
    first_texts = [entry.text for entry in texts.entries]
    equal = same(first_texts, None if others is None else [entry.text for entry in others.entries])
    if texts.grams is None or second.grams is None:
        return Repeats(equal, [], False, texts.entries, second.entries)
    pairs = near(texts.grams, None if others is None else second.grams, least)
    different = (
        pair for pair in pairs
        if normalised(first_texts[pair.first]) != normalised(second.entries[pair.second].text)
    )  # fmt: skip
    results = list(islice(different, MOST_PAIRS + 1))
    return Repeats(equal, results[:MOST_PAIRS], len(results) > MOST_PAIRS, texts.entries, second.entries)
