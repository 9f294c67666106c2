"""The first screen of an evaluation report, with two paragraphs on the policy, and with scores by model, test set and
difficulty level."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from outrider.errors import UserError
from outrider.measure import Evaluation, Interval
from outrider.report.comparing.deciding import decision_table
from outrider.report.comparing.paired import PairedRuns, pair
from outrider.report.comparing.sentences import better
from outrider.report.content import CellValue, TableBlock, Unit
from outrider.report.data import CUT, RunData
from outrider.report.digits import percent
from outrider.report.scores import EvaluationPart, cells_of, largest_k, names_of, parts_of
from outrider.report.sections.frontier import known_interval
from outrider.report.sections.seen import in_percent, one

MOST_PARTS = 12  # maximum number of rows of a table on the first screen
_MOST_MODELS = 6  # maximum number of models (columns) of a table
_NONE = Interval(math.nan, math.nan, math.nan, 0)
_COVERS = "95 % intervals over problems in brackets."
_ORDER = ("pass", "greedy", "majority", "mG-Pass")
_VERIFIED = "outcome IN ('correct', 'incorrect', 'unparseable')"


def sentences(run: RunData) -> str:
    """Return two paragraphs: the first on the policy's score or the best model, the second on unverified and truncated
    responses."""
    if not run.evaluations:
        return "There are no rollouts, so pass@k is unknown."
    first = _best(run.models) if len(run.models) > 1 else _how_good(run)
    return "\n\n".join(filter(None, [first, _counted(run)]))


def tables(run: RunData) -> list[TableBlock]:
    """Return the score tables of the page's first section: by model if there are several models, otherwise by test set
    and difficulty level. Long tables are shortened.

    If there are several models, there is also a table of paired differences from the best model.
    """
    if len(run.models) > 1:
        made = [models_table(run.models), differences_table(run.models), parts_of_models(run.models)]
        return [table for table in made if table is not None]
    evaluation = run.evaluations[max(run.evaluations)]
    parts = parts_of(evaluation)
    shown = parts if len(parts) <= MOST_PARTS else [part for part in parts if part.kind != "level"]
    shown = shown if len(shown) <= MOST_PARTS else parts[-1:]
    note = f"{_drawn(evaluation)} {_COVERS}"
    if len(shown) < len(parts):
        note += f" {len(parts) - len(shown)} more rows are in the table of the chapter The evaluation."
    kinds = list(dict.fromkeys(part.kind for part in shown if part.kind))
    title, first = f"By {' and '.join(kinds)}" if kinds else "All problems", ", ".join(kinds)
    return [_table("opening-scores", title, first, [(part.name, part, evaluation) for part in shown], note)]


def models_table(models: Mapping[str, Evaluation], id: str = "opening-models") -> TableBlock:
    """Return a table with one row per model, starting with the best model."""
    rows = [(name, parts_of(models[name])[-1], models[name]) for name in _ranked(models)]
    return _table(id, "Models", "model", rows, f"{_drawn(*models.values())} {_COVERS}")


def differences_table(models: Mapping[str, Evaluation]) -> TableBlock | None:
    """Return the paired differences from the best model; None if no other model has a problem in common with it."""
    best, found = _pairs(models)
    if not found:
        return None
    table = decision_table(found)
    note = f"{table.note} {best} was chosen as the best from the same numbers, so the differences are biased upwards."
    title = f"Paired differences from {best}"
    return replace(table, id="opening-differences", title=title, columns=["model", *table.columns[1:]], note=note)


def parts_of_models(models: Mapping[str, Evaluation]) -> TableBlock | None:
    """Return each model's pass@1 (or greedy success) by test set and difficulty level. Returns None if the problems
    have neither test sets nor levels, or if there are too many test sets or models. If there are too many rows, levels
    are omitted."""
    names = _ranked(models)
    parts = {name: {(p.kind, p.name): p.summary for p in parts_of(models[name])[:-1]} for name in names}
    places = list(dict.fromkeys(place for name in names for place in parts[name]))
    if len(places) > MOST_PARTS:
        places = [place for place in places if place[0] != "level"]
    if not 0 < len(places) <= MOST_PARTS or len(names) > _MOST_MODELS:
        return None
    sampled = any(1 in models[name].overall.pass_at for name in names)
    rows: list[list[CellValue]] = []
    for kind, part in places:
        there = [parts[name].get((kind, part)) for name in names]
        known = [None if one is None else one.pass_at.get(1, _NONE) if sampled else one.greedy for one in there]
        cells = [None if interval is None else known_interval(interval) for interval in known]
        rows.append([part, max(one.problems for one in there if one is not None), *cells])
    kinds = list(dict.fromkeys(kind for kind, _ in places))
    what = "pass@1" if sampled else "greedy decoding"
    title = f"{what[0].upper() if not sampled else what[0]}{what[1:]} by {' and '.join(kinds)}"
    columns = [", ".join(kinds), "problems", *names]
    return TableBlock("opening-parts", title, columns, rows, _COVERS, in_percent(*names))


def _pairs(models: Mapping[str, Evaluation]) -> tuple[str, list[PairedRuns]]:
    """Return the best model, and its paired comparison with each model that has an evaluated problem in common with
    it."""
    best, *others = _ranked(models)
    found = []
    for name in others:
        try:
            found.append(pair(best, models[best], name, models[name]))
        except UserError:
            continue
    return best, found


def _table(
    id: str, title: str, first: str, named: Sequence[tuple[str, EvaluationPart, Evaluation]], note: str
) -> TableBlock:
    """Return a table of scores, without columns that are empty in every row."""
    columns = list(dict.fromkeys(name for _, _, evaluation in named for name in names_of(evaluation)))
    columns.sort(key=lambda column: (_ORDER.index(column.partition("@")[0]), _k(column)))
    rows: list[list[CellValue]] = []
    for label, part, evaluation in named:
        cells = dict(zip(names_of(evaluation), cells_of(part, evaluation), strict=True))
        rows.append([label, part.summary.problems, *(cells.get(column) for column in columns)])
    filled = [i for i in range(len(columns) + 2) if i < 2 or any(row[i] is not None for row in rows)]
    headings = [first, "problems", *columns]
    units: dict[str, Unit] = in_percent(*columns)
    return TableBlock(id, title, [headings[i] for i in filled], [[row[i] for i in filled] for row in rows], note, units)


def _k(column: str) -> int:
    """Return the k in a column name such as "pass@8"; 0 if the name contains no k."""
    return int(column.partition("@")[2] or 0)


def _how_good(run: RunData) -> str:
    step = max(run.evaluations)
    evaluation = run.evaluations[step]
    told = _numbers(evaluation)
    if not told:
        return "No response has a verdict, so pass@k is unknown."
    several = len(run.evaluations) > 1
    when = f"At step {step:,}, the last of {len(run.evaluations)} evaluations, " if several else ""
    text = f"{when}{told}."
    return text if text.startswith("pass") else f"{text[0].upper()}{text[1:]}"


def _best(models: Mapping[str, Evaluation]) -> str:
    """Return a sentence on which model is best, and whether it differs significantly from the second-best model."""
    best, found = _pairs(models)
    told = _numbers(models[best])
    if not told:
        return f"No response of the {len(models)} models has a verdict, so the best model is unknown."
    text = f"Of {len(models)} models, `{best}` is best: {told}."
    if not found:
        return f"{text} It has no problem in common with the others."
    return f"{text} {better(_turned(found[0], models))}"


def _turned(found: PairedRuns, models: Mapping[str, Evaluation]) -> PairedRuns:
    """Swap the two models of a pair, so that differences are the better model's score minus the other model's score."""
    return pair(found.other, models[found.other], found.first, models[found.first])


def _numbers(evaluation: Evaluation) -> str:
    """Return a clause with pass@1 and pass@k, or with greedy success; "" if no response was verified."""
    overall, k = evaluation.overall, largest_k(evaluation)
    parts = [f"pass@{i} is {_shown(overall.pass_at[i])}" for i in sorted({min(1, k), k} - {0})]
    if parts:
        return f"{' and '.join(parts)}, over {_of_problems(evaluation)}"
    if math.isnan(overall.greedy.value):
        return ""
    return f"greedy decoding solves {_shown(overall.greedy)} of {_of_problems(evaluation)}"


def _shown(interval: Interval) -> str:
    if math.isnan(interval.low):
        return percent(interval.value)
    return f"{percent(interval.value)} (95 % CI {100 * interval.low:.1f} to {100 * interval.high:.1f})"


def _of_problems(evaluation: Evaluation) -> str:
    problems, samples = evaluation.overall.problems, _samples(evaluation)
    return f"{problems:,} problem{'s' * (problems != 1)}" + (f" with {samples} of each" if samples else "")


def _samples(evaluation: Evaluation) -> str:
    """Return the sample count in words: "16 samples", "12 to 16 samples"; "" if nothing was sampled."""
    drawn = sorted({tally.samples for tally in evaluation.tallies} - {0})
    if not drawn:
        return ""
    number = f"{drawn[0]:,}" if len(drawn) == 1 else f"{drawn[0]:,} to {drawn[-1]:,}"
    return f"{number} sample{'s' * (drawn != [1])}"


def _drawn(*evaluations: Evaluation) -> str:
    each = dict.fromkeys(_samples(evaluation) for evaluation in evaluations)
    return " ".join(f"{samples} of each problem.".capitalize() for samples in each if samples)


def _ranked(models: Mapping[str, Evaluation]) -> list[str]:
    """Return the models' names, ordered from best to worst by pass@1 or, if it is unknown, by greedy success. Models
    without a score come last."""

    def key(name: str) -> tuple[bool, float, str]:
        overall = models[name].overall
        value = overall.pass_at[1].value if 1 in overall.pass_at else overall.greedy.value
        return math.isnan(value), 0.0 if math.isnan(value) else -value, name

    return sorted(models, key=key)


def _counted(run: RunData) -> str:
    """Return a sentence on the share of responses that could not be verified and the share that was truncated."""
    step = max(run.evaluations)
    counts = one(
        run.query(
            f"SELECT count(*) AS n, count(*) FILTER ({_VERIFIED}) AS verified, count(*) FILTER ({CUT}) AS truncated, "
            "count(stop) AS known FROM rollouts WHERE step = ?",
            [step],
        )
    )
    if not counts["n"]:  # the scores are on disk, the rollouts are not
        return ""
    lacking = counts["n"] - counts["verified"]
    verified = (
        f"{percent(lacking / counts['n'])} of the {counts['n']:,} responses could not be verified and are excluded"
        if lacking
        else f"All {counts['n']:,} responses were verified"
    )
    if not counts["known"]:
        return f"{verified}; truncation is unknown."
    if not counts["truncated"]:
        return f"{verified}; none was truncated."
    return f"{verified}; {percent(counts['truncated'] / counts['known'])} were truncated."
