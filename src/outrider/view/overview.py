"""Computes the key numbers and the curves for the first page of a run."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from outrider.report.content import Figure, Series
from outrider.report.data import SAMPLED
from outrider.runs.folder import RunFolder
from outrider.view.opened_run import OpenedRun, Row

TOKENS = "generated tokens of training"
_OVERLAPPED = "overlapped_"  # prefix of phases that run at the same time as other phases
_NO_PHASES = ("step", "evaluate", "tokens_per_second")  # keys of timing.jsonl that are not training phases


def budget(run: OpenedRun) -> list[Row]:
    """Return the numbers of rollouts, tokens and successes, grouped by the columns split, stage and stream."""
    return run.rows(
        "SELECT split, stage, stream, count(*) AS rollouts, sum(tokens) AS tokens, "
        "count(*) FILTER (outcome = 'correct') AS correct, count(outcome) AS verified, "
        "count(*) FILTER (unused <> '') AS unused "
        "FROM seen GROUP BY ALL ORDER BY split DESC, stage, stream"
    )


def facts(run: OpenedRun) -> dict[str, str]:
    """Return facts about a run: its recipe, model and task. For training and evaluation, also return the number of
    rollouts and the duration."""
    config = run.data.config
    totals = {row["split"]: row for row in _totals(run)}
    found: dict[str, str] = {}
    for key, words in (("name", "recipe"), ("from_setting", "setting"), ("model", "model"), ("seed", "seed")):
        if config.get(key) not in (None, ""):
            found[words] = str(config[key])
    if task := config.get("task"):
        found["task"] = next(iter(task)) if isinstance(task, dict) else str(task)
    if train := totals.pop("train", None):
        found["training"] = f"{train['steps']:,} steps, {_amount([train])}"
    if totals:
        found["evaluation"] = _amount(list(totals.values()))
    if run.data.folder is not None and (seconds := _seconds(run.data.folder)):
        found["time of training"] = _duration(seconds)
    if run.data.folder is not None and (timed := RunFolder(run.data.folder).evaluation_timing()):
        found["time of evaluation"] = _duration(sum(row["evaluate"] for row in timed))
    if run.data.folder is not None and "explore" in config and (since := _unfinished(run.data.folder)) is not None:
        found["state"] = f"not finished, last written {_duration(since)} ago"
    return found


def _amount(totals: Sequence[Row]) -> str:
    """Format the number of rollouts and, if known, the number of tokens.

    >>> _amount([{"rollouts": 8, "tokens": 100}]), _amount([{"rollouts": 8, "tokens": None}])
    ('8 rollouts, 100 tokens', '8 rollouts')
    """
    rollouts, tokens = sum(row["rollouts"] for row in totals), [row["tokens"] for row in totals]
    known = "" if None in tokens else f", {sum(tokens):,} tokens"
    return f"{rollouts:,} rollouts{known}"


def _duration(seconds: float) -> str:
    """Format a duration in minutes, or in seconds if it is below two minutes.

    >>> _duration(90), _duration(7200)
    ('90 seconds', '120 minutes')
    """
    return f"{seconds / 60:,.0f} minutes" if seconds >= 120 else f"{seconds:,.0f} seconds"


def _unfinished(folder: Path) -> float | None:
    """Return the seconds since an unfinished run last wrote metrics; None if the run has finished."""
    metrics = folder / "metrics.jsonl"
    if (folder / "model" / "config.json").is_file() or not metrics.is_file():
        return None
    return max(0.0, time.time() - metrics.stat().st_mtime)


def _seconds(folder: Path) -> float:
    """Return the total seconds of all phases in all training steps, without evaluations."""
    steps = RunFolder(folder).timing()
    named = ((name, value) for step in steps for name, value in step.items() if not name.startswith(_OVERLAPPED))
    return sum(value for name, value in named if name not in _NO_PHASES and value == value)


def _totals(run: OpenedRun) -> list[Row]:
    return run.rows(
        "SELECT split, count(DISTINCT step) AS steps, count(*) AS rollouts, sum(tokens) AS tokens "
        "FROM seen GROUP BY split"
    )


def curves(run: OpenedRun, over: str = "step") -> list[Figure]:
    """Return plots of reward, solved and unsolved groups, entropy, length and pass@k.

    The x axis is the step or the number of ``tokens`` generated in training. The curves are computed from rollouts, so
    that they are also available for another framework's rollouts.
    """
    figures = run.kept("curves", lambda: _curves(run))
    if over == "step":
        return figures
    by_step = tokens_by_step(run)
    steps, spent = list(by_step), list(by_step.values())
    return [
        replace(
            figure,
            x=TOKENS,
            series=[replace(one, x=[_at(steps, spent, step) for step in one.x]) for one in figure.series],
        )
        for figure in figures
    ]


def tokens_by_step(run: OpenedRun) -> dict[int, int]:
    """Return the number of tokens generated in training up to the end of each step."""
    return run.kept(
        "tokens",
        lambda: {
            row["step"]: row["spent"]
            for row in run.rows(
                "SELECT step, CAST(sum(sum(tokens)) OVER (ORDER BY step) AS BIGINT) AS spent FROM seen "
                "WHERE split = 'train' GROUP BY step HAVING sum(tokens) IS NOT NULL ORDER BY step"
            )
        },
    )


def _at(steps: Sequence[int], spent: Sequence[int], step: int) -> int:
    """Return the number of tokens generated in training up to ``step``; 0 before the first training step. ``step`` need
    not be in ``steps``."""
    before = bisect_right(steps, step)
    return spent[before - 1] if before else 0


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
    return [
        Figure(
            "groups", "Groups by outcome", "stack", "step", "share of groups", series, y_range=(0.0, 1.0), percent="y"
        )
    ]


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
        [
            Figure(
                "pass-at-k", "pass@k of evaluations", "line", "step", "share of held-out problems", series, percent="y"
            )
        ]
        if series
        else []
    )
