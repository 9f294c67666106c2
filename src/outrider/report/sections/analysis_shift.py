"""The section on the changes that training made. It compares the probability of the same tokens before and after
training."""

from __future__ import annotations

import numpy as np

from outrider.arrays import Floats, Ints
from outrider.measure.groups import Label
from outrider.measure.intervention import quantile_labels
from outrider.measure.ragged import quantile_groups
from outrider.measure.shift import LARGE, largest_by_group, moved, perplexities, perplexity_against_change
from outrider.report.content import CellValue, Figure, Section, Series, TableBlock
from outrider.report.data import RunData
from outrider.report.sections.analysis import OUTCOMES, Analysed, analysis_section, mean_series

_COLUMNS = ("position", "length", "token_id", "logprob_before", "entropy_before", "shift")
_EDGES = (0.2, 0.8)
_SHARE = 0.2  # share of tokens whose changes count as the largest changes
_DRAWN = 400  # maximum number of responses in the scatter plot
_WORDS = 12

_TEXT = (
    "From `outrider analyse shift`: the probability of each token under the model after training, minus that before. "
    "Learning raises tokens of correct responses and lowers those of incorrect ones. The question is how few tokens "
    "and which responses carry that change. A model assigns high probability to its own samples, so tokens of late "
    "rollouts seem to have risen and those of early ones to have fallen: compare outcomes and groups, not with 0."
)


def section(run: RunData) -> Section | None:
    """Return a section on the change of probability by outcome, position, entropy, perplexity, category and token.

    The result is None if the run has no such analysis.
    """
    return analysis_section(run, "shift", "Change of token probabilities", _TEXT, _COLUMNS, _show)


def _show(analysis: Analysed) -> tuple[list[Figure], list[TableBlock]]:
    lengths_R = np.bincount(analysis.owners_T)
    ppl_R = perplexities(analysis.rows["logprob_before"], lengths_R)
    figures = [*_along(analysis), _largest(analysis, lengths_R, ppl_R), *_cloud(analysis, lengths_R, ppl_R)]
    return figures, [_moved(analysis, lengths_R), *_words(analysis)]


def _along(analysis: Analysed) -> list[Figure]:
    lines = analysis.along(analysis.rows["shift"], analysis.outcome_T, OUTCOMES)
    title, x = "Change of probability by position", "share of the response"
    return [Figure("shift-position", title, "line", x, "mean change", lines)] if lines else []


def _largest(analysis: Analysed, lengths_R: Ints, ppl_R: Floats) -> Figure:
    """Plot, for each group of tokens, the share of the group's tokens that are among the most changed of all tokens:
    the 20 % (``_SHARE``) with the largest absolute changes in log-probability."""
    quantiles = quantile_labels(_EDGES)
    kinds_T, names = analysis.categories()
    groups: dict[str, tuple[Ints, list[Label]]] = {
        "PPL": (quantile_groups(ppl_R, _EDGES)[analysis.owners_T], quantiles),
        "entropy": (quantile_groups(analysis.rows["entropy_before"], _EDGES), quantiles),
        "": (kinds_T, [*names]),
    }
    labels, means = [], []
    for by, (groups_T, words) in groups.items():
        profile = largest_by_group(analysis.rows["shift"], lengths_R, groups_T, words, _SHARE)
        profile = analysis.over_problems(profile)
        for word, mean in zip(words, profile.means, strict=True):
            if mean.n:
                labels.append(f"{by} {word}".strip())
                means.append(mean)
    bars = [mean_series("share of its tokens", labels, means)]
    note = (
        f"Under a uniform change, every group would have {_SHARE:.0%}. PPL is of whole responses, before training; "
        "entropy is of tokens."
    )
    title = f"Tokens among the {_SHARE:.0%} largest changes"
    return Figure("shift-largest", title, "bars", "", "share of the group's tokens", bars, note=note)


def _cloud(analysis: Analysed, lengths_R: Ints, ppl_R: Floats) -> list[Figure]:
    """Plot the mean absolute change in log-probability of a response's tokens against the response's perplexity."""
    size_R = np.bincount(analysis.owners_T, np.abs(analysis.rows["shift"]), len(lengths_R)) / np.maximum(lengths_R, 1)
    rank = perplexity_against_change(
        ppl_R, analysis.rows["shift"], lengths_R, resamples=200, problems_R=analysis.problems_R
    )
    if np.isnan(rank.value):
        return []
    chosen_R = np.zeros(len(ppl_R), dtype=bool)
    chosen_R[np.linspace(0, len(ppl_R) - 1, min(_DRAWN, len(ppl_R))).astype(int)] = True
    clouds = []
    for kind, name in enumerate(OUTCOMES):
        at = chosen_R & (analysis.success_R == kind)
        if at.any():
            clouds.append(Series(name, ppl_R[at].tolist(), size_R[at].tolist()))
    note = (
        f"Rank correlation {rank.value:+.2f} (95 % CI {rank.low:+.2f} to {rank.high:+.2f}, over problems), "
        f"{rank.responses:,} responses."
    )
    title, x = "Perplexity against change", "perplexity of the response before"
    return (
        [Figure("shift-perplexity", title, "points", x, "mean size of a change", clouds, note=note)] if clouds else []
    )


def _moved(analysis: Analysed, lengths_R: Ints) -> TableBlock:
    changes = moved(analysis.rows["shift"], lengths_R, analysis.success_R)
    body: list[list[CellValue]] = [
        [_NAMES[name], m.tokens, m.size, m.risen, m.fallen, m.beyond] for name, m in changes.items() if m.tokens
    ]
    columns = ["responses", "tokens", "mean size", "sum of rises", "sum of falls", f"beyond {LARGE}"]
    before, after = (analysis.about.get(name, "?") for name in ("before", "after"))
    note = f"{analysis.source}: from the model `{before}` to `{after}`."
    return TableBlock("shift-moved", "Size of the changes", columns, body, note)


_NAMES = {"correct": "correct", "incorrect": "not correct", "all": "all"}


def _words(analysis: Analysed) -> list[TableBlock]:
    """Return a table of the tokens with the largest total change of probability."""
    if not analysis.words:
        return []
    ids_T, shift_T = analysis.rows["token_id"], analysis.rows["shift"].astype(np.float64)
    counts_V, sums_V = np.bincount(ids_T), np.bincount(ids_T, shift_T)
    before_V = np.bincount(ids_T, np.exp(analysis.rows["logprob_before"].astype(np.float64)))
    order = np.argsort(-np.abs(sums_V), kind="stable")[:_WORDS]
    body: list[list[CellValue]] = [
        [repr(analysis.words[v]), n, float(before_V[v]) / n, float(sums_V[v]) / n, float(sums_V[v])]
        for v in sorted(order.tolist(), key=lambda v: -sums_V[v])
        if (n := int(counts_V[v]))
    ]
    columns = ["token", "times", "mean probability before", "mean change", "sum of changes"]
    note = "Tokens with the largest sums, rises first."
    return [TableBlock("shift-tokens", "Tokens with the largest changes", columns, body, note)]
