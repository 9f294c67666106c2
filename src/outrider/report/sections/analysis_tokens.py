"""The section on entropy, branching factor and gradient norm of every token under the policy."""

from __future__ import annotations

import numpy as np

from outrider.arrays import Floats, Ints
from outrider.measure.entropy import spread
from outrider.measure.intervention import quantile_labels
from outrider.measure.ragged import quantile_groups
from outrider.report.content import CellValue, Figure, Section, TableBlock
from outrider.report.data import RunData
from outrider.report.sections.analysis import OUTCOMES, Analysed, analysis_section, interval, mean_series

_COLUMNS = ("position", "length", "token_id", "entropy", "gradient_norm", "advantage")
_EDGES = (0.2, 0.8)
_TEXT = (
    "From `outrider analyse tokens`: a model computed the full next-token distributions of the rollouts. Entropy is "
    "usually highest where a response begins and where it concludes. Few high-entropy tokens determine the course of "
    "a response and carry most of the gradient. The branching factor is the number of plausible next tokens."
)
_WEIGHED = (
    "Norm of the gradient through the language-model head, times the absolute advantage, at a ratio of 1 (before the "
    "first update)."
)
_BARE = (
    "Norm of the gradient of the log-probability through the language-model head (these rollouts have no advantage)."
)


def section(run: RunData) -> Section | None:
    """Return a section on entropy, branching factor and gradient norm by position, outcome, entropy quantile and
    category.

    The result is None if the run has no such analysis.
    """
    return analysis_section(run, "tokens", "Tokens", _TEXT, _COLUMNS, _show)


def _show(analysis: Analysed) -> tuple[list[Figure], list[TableBlock]]:
    quantiles_T = quantile_groups(analysis.rows["entropy"], _EDGES)
    categories = analysis.categories()
    gradient_T, note = _gradient(analysis)
    figures = [
        *_along(analysis, gradient_T, note),
        _by_quantile(analysis, gradient_T, quantiles_T, note),
        *_by_category(analysis, *categories),
    ]
    return figures, [_means(analysis, gradient_T, quantiles_T, *categories), _spread(analysis)]


def _gradient(analysis: Analysed) -> tuple[Floats, str]:
    """Return the gradient norm of each token times its absolute advantage, and a sentence that describes this number.
    If advantages are unknown, return the gradient norm alone."""
    norm_T = analysis.rows["gradient_norm"].astype(np.float64)
    advantage_T = analysis.rows["advantage"].astype(np.float64)
    if np.isnan(advantage_T).all():
        return norm_T, _BARE
    return norm_T * np.abs(advantage_T), _WEIGHED


def _branching(analysis: Analysed) -> dict[str, str]:
    """Return the names of the branching-factor columns, with their display names."""
    names = [name for name in analysis.rows if name.startswith("branching_")]
    return {name: f"branching factor at {name.removeprefix('branching_').replace('_', '.')} %" for name in names}


def _along(analysis: Analysed, gradient_T: Floats, note: str) -> list[Figure]:
    """Plot entropy, branching factor and gradient by relative position in the response. If the analysis has several
    steps, plot entropy separately for the first and the last step."""
    outcome_T, x = analysis.outcome_T, "share of the response"
    steps_T = analysis.rows["step"]
    first, last = int(steps_T.min()), int(steps_T.max())
    if first < last:
        ends_T = np.select([steps_T == first, steps_T == last], [0, 1], -1)
        lines = analysis.along(analysis.rows["entropy"], ends_T, (f"step {first}", f"step {last}"))
    else:
        lines = analysis.along(analysis.rows["entropy"], outcome_T, OUTCOMES)
    title = "Entropy by position"
    figures = [Figure("tokens-entropy-position", title, "line", x, "nats per token", lines)]
    for column, name in _branching(analysis).items():
        lines = analysis.along(analysis.rows[column], outcome_T, OUTCOMES)
        title = f"{name.capitalize()} of the probability, by position"
        figures.append(Figure(f"tokens-{column.replace('_', '-')}", title, "line", x, "tokens", lines))
    lines = analysis.along(gradient_T, outcome_T, OUTCOMES)
    figures.append(Figure("tokens-gradient-position", "Gradient by position", "line", x, "norm", lines, note=note))
    return [figure for figure in figures if figure.series]


def _by_quantile(analysis: Analysed, gradient_T: Floats, quantiles_T: Ints, note: str) -> Figure:
    labels = quantile_labels(_EDGES)
    bars = []
    for kind, name in enumerate(OUTCOMES):
        profile = analysis.means(gradient_T, np.where(analysis.outcome_T == kind, quantiles_T, -1), labels)
        if any(mean.n for mean in profile.means):
            bars.append(mean_series(name, labels, profile.means))
    if not bars:
        bars = [mean_series("all", labels, analysis.means(gradient_T, quantiles_T, labels).means)]
    return Figure("tokens-gradient-entropy", "Gradient by entropy", "bars", "entropy", "norm", bars, note=note)


def _by_category(analysis: Analysed, kinds_T: Ints, names: tuple[str, ...]) -> list[Figure]:
    means = analysis.means(analysis.rows["entropy"], kinds_T, names).means
    there = [(name, mean) for name, mean in zip(names, means, strict=True) if mean.n]
    if len(there) < 2:
        return []
    bars = mean_series("entropy", [name for name, _ in there], [mean for _, mean in there])
    title, note = "Entropy by category of token", "Words of the built-in lexicon."
    return [Figure("tokens-entropy-category", title, "bars", "category", "nats per token", [bars], note=note)]


def _means(
    analysis: Analysed, gradient_T: Floats, quantiles_T: Ints, kinds_T: Ints, names: tuple[str, ...]
) -> TableBlock:
    """Return a table of means with one row per group of tokens and one column per quantity."""
    values = {"entropy": analysis.rows["entropy"]} | {
        name: analysis.rows[c] for c, name in _branching(analysis).items()
    }
    values |= {"gradient of log p": analysis.rows["gradient_norm"], "times advantage": gradient_T}
    if np.isnan(analysis.rows["advantage"].astype(np.float64)).all():
        del values["times advantage"]
    groups = {
        "": (np.zeros(len(analysis.owners_T), np.int64), ("all",)),
        "outcome": (analysis.outcome_T, OUTCOMES),
        "entropy": (quantiles_T, tuple(map(str, quantile_labels(_EDGES)))),
        "category": (kinds_T, names),
    }
    body: list[list[CellValue]] = []
    for by, (groups_T, labels) in groups.items():
        profiles = [analysis.means(values_T, groups_T, labels).means for values_T in values.values()]
        for label, *means in zip(labels, *profiles, strict=True):
            if means[0].n:
                cells = [cell for mean in means for cell in (mean.value, interval(mean))]
                body.append([by, label, means[0].n, *cells])
    columns = ["by", "", "tokens", *(text for name in values for text in (name, "95 % CI"))]
    model = analysis.about.get("model", "?")
    note = f"{analysis.source}, under the model `{model}`. Intervals are 95 % over problems."
    return TableBlock("tokens-means", "Means by group of tokens", columns, body, note)


def _spread(analysis: Analysed) -> TableBlock:
    summary = spread(analysis.rows["entropy"])
    note = (
        f"The 20 % of tokens with the highest entropy lie above {summary.threshold:.3g} nats and carry "
        f"{summary.carried:.0%} of the total entropy."
    )
    if np.isnan(summary.carried):
        note = ""
    body: list[list[CellValue]] = [[f"{100 * level:g} %", value] for level, value in summary.quantiles.items()]
    return TableBlock("tokens-spread", "Entropy of tokens, by quantile", ["quantile", "nats"], body, note)
