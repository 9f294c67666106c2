"""Distinguishes the two kinds of report: reports on a training run (with or without evaluations), and reports on an
evaluation alone."""

from __future__ import annotations

from dataclasses import replace

from outrider.report.comparing.evaluated import evaluations_of
from outrider.report.data import RunData
from outrider.report.models import models_of


def is_evaluation(run: RunData) -> bool:
    """Whether all rollouts were sampled for evaluation. If so, sections and advice about training do not apply.

    A training run that has so far only evaluated its initial policy does not count as an evaluation. Such a run is
    recognised by the section ``explore`` of its recipe.
    """
    drawn = run.query(f"SELECT DISTINCT split FROM {run.numbers}")["split"].tolist()
    return bool(drawn) and "train" not in drawn and "explore" not in run.config


def with_evaluations(run: RunData) -> RunData:
    """Return the run with evaluations. If the run recorded no evaluations, they are computed from its rollouts. If the
    rollouts come from several evaluated models, the returned run's ``models`` has the last evaluation of each model."""
    drawn = run.query(f"SELECT count(*) AS n FROM {run.numbers} WHERE split IN ('evaluate', 'greedy')")["n"][0]
    if drawn and not run.evaluations:
        run = replace(run, evaluations=evaluations_of(run))
    return replace(run, models=models_of(run)) if is_evaluation(run) else run
