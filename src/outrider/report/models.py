"""The models of a dump that holds several: each as a run of its own, with ids of problems that pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from outrider.measure import Evaluation
from outrider.report.comparing.evaluated import evaluations_of
from outrider.report.data import RunData

_NAMES = "SELECT DISTINCT model FROM rollouts WHERE model IS NOT NULL ORDER BY model"
# the ids of a dump of several models begin with the model, and those of a table that somebody wrote may not
_ROLLOUTS = """
SELECT * REPLACE (
    CASE WHEN starts_with(problem_id, model || '/') THEN substr(problem_id, length(model) + 2) ELSE problem_id END
    AS problem_id
) FROM rollouts WHERE model = ?
"""


def by_model(run: RunData) -> list[RunData]:
    """A run for each model of a dump, named after it, by name; the run itself where there are not several.

    The rollouts of each are read into memory. The given run stays open.
    """
    names = run.query(_NAMES)["model"].tolist()
    if len(names) < 2:
        return [run]
    return [
        replace(RunData.of(name, run.db.sql(_ROLLOUTS, params=[name]).to_arrow_table()), folder=run.folder)
        for name in names
    ]


def models_of(run: RunData) -> Mapping[str, Evaluation]:
    """The last evaluation of each model; empty where there are not several, and without those that were not evaluated.

    A problem has the same id in each.
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
