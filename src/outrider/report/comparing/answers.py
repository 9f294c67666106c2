"""The section on the diversity of answers and texts, measured on the same problems and with the same number of samples
for every run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from outrider.measure import Interval, bootstrap_mean, powers_of_two
from outrider.measure.diversity import distinct_at_k, text_diversity, words
from outrider.report.comparing.cut_runs import ComparedRun
from outrider.report.comparing.rollouts import at_hand, common_samples, query_samples
from outrider.report.content import CellValue, Figure, Section, TableBlock
from outrider.report.sections.frontier import Curve, defined, interval_series, known_interval
from outrider.report.sections.seen import in_percent

_PROBLEMS, _SAMPLES = 100, 16  # maximum number of problems, and of samples per problem, whose texts are compared
_ORDER = 4  # number of words per phrase

_TEXT = (
    "Expected number of distinct answers among k samples of a problem. Correct and incorrect answers both count, so "
    "a better policy can have fewer distinct answers. Fewer distinct answers without a higher pass@1 mean less "
    "exploration. Texts are compared by words. Novelty is the share of phrases of {order} words that occur in no other "
    "sample of the problem. Overlap is the share of a text that occurs in other samples, as in self-BLEU. Repeated "
    "texts equal an earlier sample exactly."
)


def section(compared: Sequence[ComparedRun]) -> Section | None:
    """Plot the number of distinct answers against the number of samples k. Also return a table of statistics of answers
    and response texts. Only problems that all runs share are used.

    The result is None if fewer than two runs have rollouts on disk, or if there are fewer than two samples per problem.
    It is also None if the runs have no common problem, or if there are neither answers nor texts.
    """
    there = at_hand(compared)
    k = common_samples(there) if len(there) > 1 else 0
    if k < 2:
        return None
    answers = {one.name: _answers(one, k) for one in there}
    common = sorted(set.intersection(*map(set, answers.values())))
    if not common:
        return None
    curves = {name: _curve([of[p] for p in common], k) for name, of in answers.items()}
    lines = [interval_series(name, curve) for name, curve in curves.items() if curve]
    figures = [Figure("distinct", "Distinct answers", "line", "samples with an answer", "answers", lines, x_log=True)]
    chosen = [common[i] for i in np.unique(np.linspace(0, len(common) - 1, min(_PROBLEMS, len(common))).astype(int))]
    rows = [_row(one, k, curves[one.name], chosen) for one in there]
    if not lines and all(cell is None for row in rows for cell in row[1:]):
        return None
    texts = f"{len(chosen):,} of the {len(common):,} problems, and the first {min(k, _SAMPLES)} samples of each"
    note, units = f"Texts: {texts}. Intervals are over problems.", in_percent(*_COLUMNS[1:])
    table = TableBlock("answers", "Answers and texts", _COLUMNS, rows, note, units)
    return Section(
        "diversity", "Diversity of answers and texts", _TEXT.format(order=_ORDER), figures if lines else [], [table]
    )


_COLUMNS = ["run", "two answers differ", "novelty", "overlap", "repeated"]


def _row(one: ComparedRun, k: int, curve: Curve, chosen: Sequence[str]) -> list[CellValue]:
    differ = _less_one(curve[2]) if 2 in curve else Interval(np.nan, np.nan, np.nan, 0)
    columns = query_samples(
        one,
        "SELECT problem_id, text FROM samples WHERE place < ? AND text IS NOT NULL AND problem_id = ANY(?) "
        "ORDER BY problem_id, place",
        [min(k, _SAMPLES), list(chosen)],
    )
    texts = [words(text) for text in columns["text"].tolist()]
    result = text_diversity(texts, columns["problem_id"].tolist(), order=_ORDER)
    # without texts, repetition is unknown
    repeated = float(result.duplicates_P.sum() / result.responses_P.sum()) if texts else None
    return [
        one.name,
        known_interval(differ),
        known_interval(bootstrap_mean(result.novelty_P)),
        known_interval(bootstrap_mean(result.overlap_P)),
        repeated,
    ]


def _less_one(interval: Interval) -> Interval:
    """Return the probability that two answers differ: the expected number of distinct answers among two samples, minus
    1."""
    value, low, high, problems = interval
    return Interval(value - 1, low - 1, high - 1, problems)


def _answers(one: ComparedRun, k: int) -> dict[str, list[str]]:
    """Return the answers of each problem's first ``k`` samples; "" for a sample without an answer."""
    columns = query_samples(
        one, "SELECT problem_id, answer FROM samples WHERE place < ? ORDER BY problem_id, place", [k]
    )
    results: dict[str, list[str]] = defaultdict(list)
    for problem, answer in zip(columns["problem_id"].tolist(), columns["answer"].tolist(), strict=True):
        results[problem].append(answer or "")
    return results


def _curve(answers: Sequence[Sequence[str]], k: int) -> Curve:
    """Return the mean number of distinct answers among 1, 2, 4, … samples, over problems with enough samples."""
    return defined({i: bootstrap_mean([distinct_at_k(of, i) for of in answers]) for i in powers_of_two(k)})
