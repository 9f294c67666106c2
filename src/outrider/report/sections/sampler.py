"""The section on off-policy metrics, which measure the divergence between the sampling policy and the learner."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from outrider.report.content import Figure, Section, Series
from outrider.report.data import RunData
from outrider.report.sections.seen import known, query, series

# Metrics by the last part of their keys, for any stream: `learn/kl_old`, `learn/main/kl_old`, `learn/branch/clip_high`.
_GAUGES = {
    "Divergence from the policy that sampled": ("nats per token", ("kl_old",)),
    "Tokens whose ratio was bounded or clipped": (
        "share of tokens",
        ("clip_low", "clip_high", "log_ratio_bounded", "weight_clamped"),
    ),
    "Largest correction weight": ("weight", ("weight_max",)),
    "Effective share of the samples": ("share", ("weight_ess",)),
    "Gradient norm": ("norm", ("grad_norm",)),
}

_ROUNDING = 1e-7  # values below this number are rounding errors of float32

_TEXT = (
    "Sampling and learning weights differ, because of several updates per step, asynchronous sampling, and different "
    "kernels in the engine and the trainer. The divergence should be small and steady. A rising share of clipped "
    "tokens means that fewer tokens have a gradient."
)


def section(run: RunData) -> Section | None:
    """Plot the off-policy metrics, and the age in training steps of the weights that sampled the rollouts. Return None
    if neither is known."""
    figures = [figure for title in _GAUGES if (figure := _gauge(run, title)) is not None]
    figures += _age(run)
    return Section("sampler", "Off-policy metrics", _TEXT, figures) if figures else None


def _gauge(run: RunData, title: str) -> Figure | None:
    unit, names = _GAUGES[title]
    if "step" not in run.metrics:
        return None
    lines = [
        _thinned(key.removeprefix("learn/"), run.metrics["step"], values)
        for key, values in run.metrics.items()
        if key.startswith("learn/") and key.rsplit("/", 1)[-1] in names and known(values)
    ]
    note = ""
    if (
        lines
        and all(abs(y) < _ROUNDING for line in lines for y in line.y if y == y)
        and any(map(any, (s.y for s in lines)))
    ):
        lines = [replace(line, y=[0.0 * y for y in line.y]) for line in lines]
        note = f"All values are within {_ROUNDING:g} of 0 (rounding) and drawn as 0."
    id = "sampler-" + re.sub(r"[^a-z]+", "-", title.lower())
    percent = "y" if unit.startswith("share") else ""
    return Figure(id, title, "line", "step", unit, lines, note=note, percent=percent) if lines else None


def _thinned(name: str, steps: np.ndarray, values: np.ndarray) -> Series:
    """Return a series of at most 200 points. Each point is the mean over neighbouring steps, ignoring NaN."""
    parts = np.array_split(np.arange(len(steps)), min(len(steps), 200))
    means = [values[p][~np.isnan(values[p])].mean() if (~np.isnan(values[p])).any() else np.nan for p in parts]
    return series(name, np.array([steps[p[-1]] for p in parts]), np.array(means))


def _age(run: RunData) -> list[Figure]:
    """Plot the age in training steps of the weights that sampled the rollouts. Return no figure if all rollouts were
    sampled with the newest weights, or if their ``policy_version`` is not a step number."""
    columns = query(
        run,
        "SELECT upto, avg(step - 1 - policy_version) AS mean, max(step - 1 - policy_version) AS most, "
        "min(step - 1 - policy_version) AS least FROM seen WHERE policy_version IS NOT NULL "
        "GROUP BY upto ORDER BY upto",
    )
    if not len(columns["upto"]) or columns["least"].min() < 0 or columns["most"].max() == 0:
        return []
    lines = [series("mean", columns["upto"], columns["mean"]), series("oldest", columns["upto"], columns["most"])]
    return [Figure("sampler-age", "Age of the sampling weights", "line", "step", "steps", lines)]
