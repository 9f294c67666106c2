"""Splits rollouts of several models into one run per model, with the same problem ids in every run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from outrider.measure import Evaluation
from outrider.report.comparing.evaluated import evaluations_of
from outrider.report.data import RunData

_NAMES = "SELECT DISTINCT model FROM rollouts WHERE model IS NOT NULL ORDER BY model"
# importers prefix problem ids with the model if there are several models; other tables may have no prefix
_ROLLOUTS = """
SELECT * REPLACE (
    CASE WHEN starts_with(problem_id, model || '/') THEN substr(problem_id, length(model) + 2) ELSE problem_id END
    AS problem_id
) FROM rollouts WHERE model = ?
"""


def by_model(run: RunData) -> list[RunData]:
    """Return one run per model, named after the model and sorted by name; return only ``run`` if there is at most one
    model.

    Each model's rollouts are read into memory. ``run`` itself stays open.
    """
    names = run.query(_NAMES)["model"].tolist()
    if len(names) < 2:
        return [run]
    return [
        replace(RunData.of(name, run.db.sql(_ROLLOUTS, params=[name]).to_arrow_table()), folder=run.folder)
        for name in names
    ]


def models_of(run: RunData) -> Mapping[str, Evaluation]:
    """Return the last evaluation of each evaluated model, keyed by model name; empty if there are fewer than two
    models.

    A problem has the same id in every evaluation.
    """
    models = by_model(run)
    if len(models) < 2:
        return {}
    found = {}
    for model in models:
        evaluations = evaluations_of(model)
        if evaluations:
            found[model.name] = evaluations[max(evaluations)]
        model.db.close()
    return found
