"""The first screen of a report: a sentence on the state of exploration, tables of pass@k and of the token budget, and a
plot of the reward.

A report of an evaluation without training begins with the policy's scores instead.
"""

from __future__ import annotations

import numpy as np

from outrider.errors import UserError
from outrider.measure import Comparison, Evaluation, Interval, compare
from outrider.measure.passk import shown_ks
from outrider.report import evaluation_opening
from outrider.report.content import CellValue, Figure, Section, TableBlock, Unit
from outrider.report.data import RunData
from outrider.report.findings import Examined
from outrider.report.headline import headline
from outrider.report.kind import is_evaluation
from outrider.report.sections.budget import cost_of, unit_of
from outrider.report.sections.frontier import defined, early_and_late, known_interval
from outrider.report.sections.seen import in_percent, known, one, query, rows, series, split

_COVERS = "95 % intervals over problems in brackets; they do not cover the seed of the run."


def opening(run: RunData, examined: Examined) -> Section:
    """Return the sentence on exploration, tables of pass@k and the budget, and a figure of mean reward over steps.

    If data are missing, the table or figure is empty, and the page shows a line of text instead. For an evaluation
    without training, the section begins with the policy's scores and has no reward figure.
    """
    comparison = _comparison(run)
    if is_evaluation(run):
        along = [_pass_at_k(run, comparison, True)] if len(run.evaluations) > 1 and len(run.models) < 2 else []
        tables = [*evaluation_opening.tables(run), *along, _budget(run)]
        told = evaluation_opening.sentences(run)
        title = "How good the models are" if len(run.models) > 1 else "How good the policy is"
        return Section("opening", title, told, [], [table for table in tables if table])
    sentence = headline(examined, None if comparison is None else _widest(comparison))
    tables = [_pass_at_k(run, comparison, False), _budget(run)]
    return Section("opening", "Exploration", sentence, [reward(run)], [table for table in tables if table])


def _comparison(run: RunData) -> Comparison | None:
    """Return the paired comparison of the last evaluation with the first evaluation; None if they cannot be paired."""
    if len(run.evaluations) < 2:
        return None
    try:
        return compare(run.evaluations[min(run.evaluations)], run.evaluations[max(run.evaluations)])
    except UserError:
        return None


def _widest(comparison: Comparison) -> tuple[int, Interval] | None:
    there = {k: change for k, change in comparison.overall.pass_at.items() if not np.isnan(change.value)}
    return (max(there), there[max(there)]) if there else None


def _pass_at_k(run: RunData, comparison: Comparison | None, evaluation: bool) -> TableBlock:
    """Return a table with a row per k: pass@k before and after training, and the paired change, if known.

    If there are no evaluations, pass@k is estimated from early and late training groups, which cover different
    problems.
    """
    if not run.evaluations:
        return _of_training(run)
    steps = sorted({min(run.evaluations), max(run.evaluations)})
    named = {_moment(step, evaluation): run.evaluations[step] for step in steps}
    last = run.evaluations[steps[-1]].overall
    changed = [] if comparison is None else [comparison.overall]
    body: list[list[CellValue]] = []
    for k in shown_ks(defined(last.pass_at)):
        intervals = [one.overall.pass_at.get(k) for one in named.values()] + [one.pass_at.get(k) for one in changed]
        body.append([f"pass@{k}", *map(_known, intervals)])
    greedy = [*(one.overall.greedy for one in named.values()), *(one.greedy for one in changed)]
    if any(known_interval(interval) for interval in greedy):
        body.append(["greedy", *map(known_interval, greedy)])
    units: dict[str, Unit] = {**in_percent(*named), "change": "points"}
    columns = ["", *named, *([] if comparison is None else ["change"])]
    note = f"{_counted(run.evaluations[steps[-1]])} {_COVERS}"
    if len(named) > 1 and comparison is None:
        note += " The two evaluations have no problem in common, so the paired change is unknown."
    title = "pass@k on held-out problems" if not evaluation else "pass@k"
    return TableBlock("opening-pass-at-k", title, columns, body, note, units)


def _known(interval: Interval | None) -> Interval | None:
    return None if interval is None else known_interval(interval)


def _moment(step: int, evaluation: bool) -> str:
    return "before training" if step == 0 and not evaluation else f"step {step:,}"


def _counted(evaluation: Evaluation) -> str:
    samples = max((tally.samples for tally in evaluation.tallies), default=0)
    return f"{evaluation.overall.problems:,} problems, {samples:,} samples of each."


def _of_training(run: RunData) -> TableBlock:
    curves = early_and_late(run)
    ks = sorted({k for curve in curves.values() for k in shown_ks(curve)})
    body: list[list[CellValue]] = [[f"pass@{k}", *(_known(curve.get(k)) for curve in curves.values())] for k in ks]
    note = (
        "There is no evaluation: pass@k is that of the first stage's rollouts in training groups, whose problems "
        f"differ. {_COVERS}"
    )
    title = "pass@k of training groups"
    return TableBlock("opening-pass-at-k", title, ["", *curves], body, note if body else "", in_percent(*curves))


def _budget(run: RunData) -> TableBlock | None:
    """Return a table of cost and success in evaluation and in each stage of training; None if there are no rollouts."""
    unit = unit_of(run)
    if not unit:
        return None
    data = run.query(
        f"""
        SELECT CASE split WHEN 'train' THEN 'training' ELSE 'evaluation' END AS purpose,
            CASE split WHEN 'train' THEN stage ELSE '' END AS stage,
            count(*) AS rollouts, {cost_of(unit)} AS cost,
            cost / nullif(sum(cost) OVER (), 0) AS share, avg((outcome = 'correct')::INT) AS success
        FROM rollouts GROUP BY ALL ORDER BY purpose DESC, stage
        """
    )
    if unit == "rollouts":
        del data["cost"]  # equals the column `rollouts`
    stages = data["purpose"].tolist().count("training") > 1
    body: list[list[CellValue]] = [
        [f"{purpose}: {stage}" if stages and stage else purpose, *rest] for purpose, stage, *rest in rows(data)
    ]
    columns = ["", "rollouts", *(["tokens"] if unit == "tokens" else []), "share", "correct"]
    note = _trained_on(run, unit)
    return TableBlock("opening-budget", f"Where the {unit} went", columns, body, note, in_percent("share", "correct"))


def _trained_on(run: RunData, unit: str) -> str:
    """For a training run, return a sentence on the share of its sampled tokens (or rollouts) that the policy was
    trained on. For an evaluation, return ""."""
    if split(run) != "train":
        return ""
    used = cost_of(unit, "unused = ''")
    total = one(query(run, f"SELECT {cost_of(unit)} AS cost, {used} AS used FROM spent"))
    if not total["cost"]:
        return ""
    return f"{100 * total['used'] / total['cost']:.1f} % of the {unit} of training were trained on."


def reward(run: RunData) -> Figure:
    """Plot mean training reward over steps, or success if rollouts have no reward. If rollouts have neither, the figure
    is empty."""
    empty = Figure("opening-reward", "Mean reward in training", "line", "step", "reward", [])
    if split(run) != "train":
        return empty
    columns = query(
        run,
        "SELECT upto, avg(reward) FILTER (isfinite(reward)) AS reward, avg(success) AS success FROM seen "
        "GROUP BY upto ORDER BY upto",
    )
    note = "All rollouts of a step, from all stages."
    if known(columns["reward"]):
        lines = [series("reward", columns["upto"], columns["reward"])]
        return Figure(empty.id, empty.title, "line", "step", "reward of a rollout", lines, note=note)
    if not known(columns["success"]):
        return empty
    lines = [series("success", columns["upto"], columns["success"])]
    note += " These rollouts have no reward, so success is shown."
    return Figure(empty.id, "Success in training", "line", "step", "share of rollouts", lines, note=note, percent="y")
