"""What a run did, in a few numbers and curves: the first page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from outrider.report.content import Figure, Series
from outrider.report.data import SAMPLED
from outrider.runs.folder import RunFolder
from outrider.view.opened_run import OpenedRun, Row

_NO_PHASES = ("step", "evaluate", "tokens_per_second")  # of timing.jsonl


def budget(run: OpenedRun) -> list[Row]:
    """Rollouts, tokens and successes of each split and stage, so that training and evaluations stand apart."""
    return run.rows(
        "SELECT split, stage, stream, count(*) AS rollouts, coalesce(sum(tokens), 0) AS tokens, "
        "count(*) FILTER (outcome = 'correct') AS correct, count(outcome) AS verified, "
        "count(*) FILTER (unused <> '') AS unused "
        "FROM seen GROUP BY ALL ORDER BY split DESC, stage, stream"
    )


def facts(run: OpenedRun) -> dict[str, str]:
    """What was trained, on what, and for how long; training and evaluation apart."""
    config = run.data.config
    totals = {row["split"]: row for row in _totals(run)}
    found: dict[str, str] = {}
    for key, words in (("name", "recipe"), ("from_setting", "setting"), ("model", "model"), ("seed", "seed")):
        if config.get(key) not in (None, ""):
            found[words] = str(config[key])
    if task := config.get("task"):
        found["task"] = next(iter(task)) if isinstance(task, dict) else str(task)
    if train := totals.pop("train", None):
        found["training"] = f"{train['steps']:,} steps, {train['rollouts']:,} rollouts, {train['tokens']:,} tokens"
    if totals:
        rollouts, tokens = (sum(row[name] for row in totals.values()) for name in ("rollouts", "tokens"))
        found["evaluation"] = f"{rollouts:,} rollouts, {tokens:,} tokens"
    if run.data.folder is not None and (seconds := _seconds(run.data.folder)):
        found["time of training"] = f"{seconds / 60:,.0f} minutes" if seconds >= 120 else f"{seconds:,.0f} seconds"
    return found


def _seconds(folder: Path) -> float:
    """All phases of all steps, evaluations aside."""
    steps = RunFolder(folder).timing()
    return sum(value for step in steps for name, value in step.items() if name not in _NO_PHASES and value == value)


def _totals(run: OpenedRun) -> list[Row]:
    return run.rows(
        "SELECT split, count(DISTINCT step) AS steps, count(*) AS rollouts, coalesce(sum(tokens), 0) AS tokens "
        "FROM seen GROUP BY split"
    )


def pass_at_k(run: OpenedRun) -> list[tuple[str, Any, Any]]:
    """pass@k of the first and of the last evaluation: the name, and both intervals; None for what is not there, as the
    last one where there is one alone."""
    steps = sorted(run.data.evaluations)
    if not steps:
        return []
    first, last = (run.data.evaluations[step].overall for step in (steps[0], steps[-1]))
    if len(steps) == 1:
        return [(f"pass@{k}", first.pass_at[k], None) for k in sorted(first.pass_at)] + [("greedy", first.greedy, None)]
    names: list[tuple[str, Any, Any]] = [
        (f"pass@{k}", first.pass_at.get(k), last.pass_at.get(k)) for k in sorted({*first.pass_at, *last.pass_at})
    ]
    return [*names, ("greedy", first.greedy, last.greedy), ("majority", first.majority, last.majority)]


def curves(run: OpenedRun) -> list[Figure]:
    """Reward, entropy and the shares of groups by outcome over steps, and pass@k of evaluations.

    From the rollouts, so that a dump has them too.
    """
    return run.kept("curves", lambda: _curves(run))


def _curves(run: OpenedRun) -> list[Figure]:
    rows = run.rows(
        "SELECT step, avg(reward) FILTER (NOT isnan(reward)) AS reward, avg(entropy) FILTER (NOT isnan(entropy)) "
        f"AS entropy, avg(tokens) AS tokens FROM seen WHERE split = 'train' AND {SAMPLED} GROUP BY step ORDER BY step"
    )
    steps = [row["step"] for row in rows]
    figures = []
    if len(steps) > 1:
        for name, title, unit in (
            ("reward", "Reward", "mean reward of a rollout"),
            ("entropy", "Entropy", "nats per token"),
            ("tokens", "Length", "tokens of a response"),
        ):
            values = [float("nan") if row[name] is None else float(row[name]) for row in rows]
            figures.append(Figure(name, title, "line", "step", unit, [Series(name, steps, values)]))
        figures[1:1] = _groups(run)
    return [*figures, *_evaluations(run)]


def _groups(run: OpenedRun) -> list[Figure]:
    rows = run.rows(
        "SELECT step, avg(CAST(c = v AS INT)) AS solved, avg(CAST(c > 0 AND c < v AS INT)) AS mixed, "
        "avg(CAST(c = 0 AS INT)) AS unsolved FROM (SELECT step, group_id, count(outcome) AS v, "
        f"count(*) FILTER (outcome = 'correct') AS c FROM seen WHERE split = 'train' AND {SAMPLED} GROUP BY ALL) "
        "WHERE v > 0 GROUP BY step ORDER BY step"
    )
    steps = [row["step"] for row in rows]
    series = [Series(kind, steps, [float(row[kind]) for row in rows]) for kind in ("solved", "mixed", "unsolved")]
    return [Figure("groups", "Groups by outcome", "stack", "step", "share of groups", series, y_range=(0.0, 1.0))]


def _evaluations(run: OpenedRun) -> list[Figure]:
    found = sorted(run.data.evaluations.items())
    if len(found) < 2:
        return []
    steps = [step for step, _ in found]
    names = [k for k in sorted(found[0][1].overall.pass_at) if k in found[-1][1].overall.pass_at]
    kept = sorted({names[0], names[len(names) // 2], names[-1]}) if names else []
    series = []
    for k in kept:
        ends = [evaluation.overall.pass_at.get(k) for _, evaluation in found]
        y, low, high = (
            [float("nan") if end is None else float(getattr(end, name)) for end in ends]
            for name in ("value", "low", "high")
        )
        series.append(Series(f"pass@{k}", steps, y, low, high))
    return (
        [Figure("pass-at-k", "pass@k of evaluations", "line", "step", "share of held-out problems", series)]
        if series
        else []
    )
