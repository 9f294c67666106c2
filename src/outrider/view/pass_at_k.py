"""Computes pass@k before and after training, from the first and last evaluation or, if there are no evaluations, from
training groups.

If another framework's rollouts come from several models, the module computes pass@k of each model instead.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from outrider.measure import Evaluation, Interval, bootstrap_mean, pass_at_k, powers_of_two
from outrider.report.data import SAMPLED
from outrider.view.opened_run import OpenedRun

_COUNTS = f"""
SELECT problem_id, count(*) AS n, count(*) FILTER (outcome = 'correct') AS c FROM seen
WHERE split = ? AND step BETWEEN ? AND ? AND CAST(? AS VARCHAR) IN ('', model)
    AND outcome IN ('correct', 'incorrect', 'unparseable') AND {SAMPLED}
    AND parent IS NULL AND context = 'plain' AND stage = (SELECT min(stage) FROM seen WHERE split = ?)
GROUP BY problem_id, step, group_id ORDER BY ALL
"""
_RESAMPLED = 2_000_000  # maximum number of values in all bootstrap resamples of one estimate


class BeforeAfter(NamedTuple):
    """Metrics before and after training, or of several models.

    Attributes:
        names: one or two labels such as "step 0", or names of models.
        rows: for each metric, an interval for each of ``names``; None if the value is unknown.
        note: sentence for the page that explains the source of the numbers.
        by_model: whether ``names`` are model names.
    """

    names: list[str]
    rows: dict[str, list[Interval | None]]
    note: str
    by_model: bool = False

    @property
    def paired(self) -> bool:
        """Whether ``names`` are two points in training, so that a change can be computed."""
        return len(self.names) > 1 and not self.by_model

    def change(self, measure: str) -> float | None:
        """Return how much a metric changes from the first point in training to the second; None if either value is
        unknown."""
        first, last = self.rows[measure]
        if first is None or last is None or first.value != first.value or last.value != last.value:
            return None
        return last.value - first.value


def before_after(run: OpenedRun) -> BeforeAfter | None:
    """Return pass@k before and after training, or by model; None if there are no evaluations and no verified rollouts.

    The values come from the run's evaluation results. If there are none, they are computed from evaluation rollouts, or
    else from the first and the last fifth of the training steps. The computation leaves out rollouts that continue
    another rollout, and rollouts with examples or hints in the prompt. If rollouts were sampled in several stages of a
    step, only those of the first stage are used.
    """
    return run.kept("pass@k", lambda: _written(run) or _counted(run))


def _written(run: OpenedRun) -> BeforeAfter | None:
    steps = sorted({min(run.data.evaluations), max(run.data.evaluations)}) if run.data.evaluations else []
    if not steps:
        return None
    found = [run.data.evaluations[step] for step in steps]
    ks = sorted({k for one in found for k in one.overall.pass_at})
    rows = {f"pass@{k}": [one.overall.pass_at.get(k) for one in found] for k in ks}
    rows |= {name: [_measure(one, name) for one in found] for name in ("greedy", "majority")}
    return BeforeAfter([f"step {step}" for step in steps], _known(rows), "95 % intervals over held-out problems.")


def _measure(evaluation: Evaluation, name: str) -> Interval:
    found: Interval = getattr(evaluation.overall, name)
    return found


def _counted(run: OpenedRun) -> BeforeAfter | None:
    evaluated, trained = (_steps(run, split) for split in ("evaluate", "train"))
    models = [row["model"] for row in run.rows("SELECT DISTINCT model FROM seen WHERE model IS NOT NULL ORDER BY 1")]
    if evaluated and len(models) > 1:
        return _by_model(run, models, evaluated[-1])
    if evaluated:
        spans = {f"step {step}": ("evaluate", step, step) for step in (evaluated[0], evaluated[-1])}
        note = "95 % intervals over problems."
    elif len(trained) > 1:
        fifth = max(1, len(trained) // 5)
        spans = {
            "first steps": ("train", trained[0], trained[fifth - 1]),
            "last steps": ("train", trained[-fifth], trained[-1]),
        }
        note = (
            f"There is no evaluation: pass@k is that of the problems of the first and of the last {fifth} training "
            f"{'step' if fifth == 1 else 'steps'}, which differ. 95 % intervals over problems."
        )
    else:
        spans = {f"step {step}": ("train", step, step) for step in trained}
        note = "95 % intervals over problems."
    found = {name: _curve(run, *span) for name, span in spans.items()}
    ks = sorted({k for curve in found.values() for k in curve})
    rows = {f"pass@{k}": [curve.get(k) for curve in found.values()] for k in ks}
    return BeforeAfter(list(found), rows, note) if _known(rows) else None


def _by_model(run: OpenedRun, models: list[str], step: int) -> BeforeAfter | None:
    found = [_curve(run, "evaluate", step, step, model) for model in models]
    rows = {f"pass@{k}": [curve.get(k) for curve in found] for k in sorted({k for curve in found for k in curve})}
    note = "95 % intervals over problems. For paired differences, run outrider compare on this dump."
    return BeforeAfter(models, rows, note, by_model=True) if _known(rows) else None


def _steps(run: OpenedRun, split: str) -> list[int]:
    rows = run.rows("SELECT DISTINCT step FROM seen WHERE split = ? AND outcome IS NOT NULL ORDER BY 1", [split])
    return [row["step"] for row in rows]


def _curve(run: OpenedRun, split: str, first: int, last: int, model: str = "") -> dict[int, Interval]:
    """Return pass@k for k = 1, 2, 4, …, as long as nine in ten groups have at least k rollouts.

    ``model`` selects the rollouts of one model; "" selects the rollouts of all models.
    """
    rows = run.rows(_COUNTS, [split, first, last, model, split])
    if not rows:
        return {}
    n, c, problems = (np.array([row[name] for row in rows]) for name in ("n", "c", "problem_id"))
    most = int(np.quantile(n, 0.1, method="lower"))
    resamples = max(100, min(1000, _RESAMPLED // len(n)))
    return {k: bootstrap_mean(pass_at_k(n, c, k), resamples, problems_P=problems) for k in powers_of_two(most)}


def _known(rows: dict[str, list[Interval | None]]) -> dict[str, list[Interval | None]]:
    """Return only the metrics that have at least one value."""
    return {
        name: each for name, each in rows.items() if any(one is not None and one.value == one.value for one in each)
    }
