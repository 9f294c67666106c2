"""The section on the effect of individual tokens: the success rate with a token, minus the rate with the likeliest
alternative."""

from __future__ import annotations

import numpy as np

from outrider.arrays import Floats
from outrider.measure.groups import Profile, means_by_group
from outrider.measure.intervention import by_entropy, by_perplexity, by_position, effects, squared_effects
from outrider.report.content import CellValue, Figure, Section, TableBlock
from outrider.report.data import RunData
from outrider.report.sections.analysis import OUTCOMES, Analysed, analysis_section, interval, mean_series

_COLUMNS = ("position", "length", "token_id", "relative_position", "entropy", "ppl", "success", "k")
_COUNTS = ("kept_successes", "replaced_successes", "generated_tokens")
_RESAMPLES = 500

_TEXT = (
    "From `outrider analyse intervene`: a token is replaced by the most likely alternative, the response is "
    "continued from both, and the continuations are verified. The effect is the success rate with the token minus "
    "that with its replacement: above 0 the token helped, near 0 it did not matter. Means are over the tested "
    "positions, not over all tokens; 95 % intervals are over problems."
)


def section(run: RunData) -> Section | None:
    """Return a section on the effect of replacing single tokens, grouped by the token's position and entropy, the
    response's perplexity and its outcome.

    Intervals are over problems. The result is None if the run has no such analysis.
    """
    return analysis_section(run, "intervene", "Effect of single tokens", _TEXT, (*_COLUMNS, *_COUNTS), _show)


def _show(analysis: Analysed) -> tuple[list[Figure], list[TableBlock]]:
    kept_N, replaced_N, k_N = (analysis.rows[name] for name in ("kept_successes", "replaced_successes", "k"))
    effect_N = effects(replaced_N, kept_N, k_N)
    named = _profiles(analysis, effect_N)
    squares = _profiles(analysis, squared_effects(replaced_N, kept_N, k_N))
    there = [
        (by, str(label), mean, squares[by].means[i].value)
        for by, profile in named.items()
        for i, (label, mean) in enumerate(zip(profile.groups, profile.means, strict=True))
        if mean.n
    ]
    labels = [f"{by} {label}".strip() for by, label, _, _ in there]
    bars = [mean_series("effect of a token", labels, [mean for _, _, mean, _ in there], "positions")]
    title, note = (
        "Effect of replacing a token",
        ("Entropy and PPL are in quantiles over the tested positions and responses."),
    )
    figure = Figure(
        "intervene-effects", title, "bars", "", "success with the token, minus with its replacement", bars, note=note
    )
    body: list[list[CellValue]] = [
        [by, label, mean.n, mean.responses, mean.value, interval(mean), _size(square)]
        for by, label, mean, square in there
    ]
    columns = ["by", "", "positions", "responses", "effect", "95 % CI", "RMS effect"]
    return [figure] if there else [], [TableBlock("intervene-table", title, columns, body, _note(analysis, effect_N))]


def _profiles(analysis: Analysed, values_N: Floats) -> dict[str, Profile]:
    rows, owners_N = analysis.rows, analysis.owners_T
    success_N = np.nan_to_num(rows["success"].astype(np.float64), nan=-1).astype(np.int64)
    every_N = np.zeros(len(owners_N), dtype=np.int64)
    profiles = {
        "": means_by_group(values_N, every_N, owners_N, ["all positions"]),
        "position": by_position(values_N, rows["relative_position"], owners_N),
        "entropy": by_entropy(values_N, rows["entropy"], owners_N),
        "PPL": by_perplexity(values_N, rows["ppl"], owners_N),
        "response": means_by_group(values_N, success_N, owners_N, OUTCOMES),
    }
    return {by: analysis.over_problems(profile, _RESAMPLES) for by, profile in profiles.items()}


def _size(square: float) -> float | None:
    """Return the square root of a noise-corrected mean square, with a negative mean square counted as 0."""
    return None if np.isnan(square) else float(np.sqrt(max(square, 0.0)))


def _note(analysis: Analysed, effect_N: Floats) -> str:
    verified_N = ~np.isnan(effect_N)
    k = analysis.rows["k"]
    kept, replaced = (
        (analysis.rows[name][verified_N] / k[verified_N]).mean() if verified_N.any() else np.nan
        for name in ("kept_successes", "replaced_successes")
    )
    lost = len(effect_N) - int(verified_N.sum())
    left = f" {lost:,} positions are excluded: a continuation could not be verified." if lost else ""
    chosen = "highest entropy in its segment" if analysis.about.get("choose") == "entropy" else "random"
    return (
        f"{analysis.source}; positions: {chosen}; {int(k.max())} continuations of each token by the model "
        f"`{analysis.about.get('model', '?')}`, {int(analysis.rows['generated_tokens'].sum()):,} tokens. Success "
        f"{kept:.3f} with the token, {replaced:.3f} with its replacement.{left} The RMS effect is the root mean "
        "square without sampling noise: effects of both signs cancel in a mean."
    )
