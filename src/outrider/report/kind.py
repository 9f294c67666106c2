"""The kind of a report: of a training, with or without evaluations, or of an evaluation alone."""

from __future__ import annotations

from dataclasses import replace

from outrider.report.comparing.evaluated import evaluations_of
from outrider.report.data import RunData
from outrider.report.models import models_of


def is_evaluation(run: RunData) -> bool:
    """Whether all rollouts were drawn to evaluate: then nothing is learned from them, and no advice is for training.

    A training that has only evaluated the policy that it begins with is none: its recipe says that it explores.
    """
    drawn = run.query(f"SELECT DISTINCT split FROM {run.numbers}")["split"].tolist()
    return bool(drawn) and "train" not in drawn and "explore" not in run.config


def with_evaluations(run: RunData) -> RunData:
    """The run with the evaluations that its rollouts hold, where it has not written them itself, and those of its
    models, where it is a dump of the evaluations of several."""
    drawn = run.query(f"SELECT count(*) AS n FROM {run.numbers} WHERE split IN ('evaluate', 'greedy')")["n"][0]
    if drawn and not run.evaluations:
        run = replace(run, evaluations=evaluations_of(run))
    return replace(run, models=models_of(run)) if is_evaluation(run) else run
