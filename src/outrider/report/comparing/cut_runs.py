"""Cut runs at equal generated tokens, as if each had been stopped at the smallest run's total."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from outrider.arrays import Floats
from outrider.measure import Evaluation
from outrider.report.comparing.evaluated import evaluations_of, verified_split
from outrider.report.data import RunData
from outrider.report.run import gather


@dataclass(frozen=True, eq=False)
class ComparedRun:
    """One run, cut at the common number of tokens.

    Attributes:
        run: rollouts, metrics and evaluations up to the cut.
        steps_S, tokens_S: training steps up to the cut, and tokens generated in training up to and including each step.
            Empty for a run without training or without token counts.
        total_steps, total_tokens: totals of the uncut run; 0 steps without training, NaN tokens if unknown.
        step: step of the last evaluation; None if there is none.
        split: split of the rollouts behind this evaluation.
    """

    run: RunData
    steps_S: Floats
    tokens_S: Floats
    total_steps: int
    total_tokens: float
    step: int | None
    split: str

    @property
    def name(self) -> str:
        return self.run.name

    @property
    def evaluation(self) -> Evaluation | None:
        """The last evaluation up to the cut; None if there is none."""
        return None if self.step is None else self.run.evaluations[self.step]

    def tokens_at(self, step: float) -> float:
        """Tokens generated in training up to and including a step; 0 for step 0, NaN if unknown."""
        if step <= 0:
            return 0.0
        at = int(np.searchsorted(self.steps_S, step, side="right"))
        return float(self.tokens_S[at - 1]) if at else math.nan


def cut_at_equal_tokens(runs: Sequence[RunData]) -> tuple[float, list[ComparedRun]]:
    """Return the common number of generated tokens, and each run cut at it.

    The common number is the smallest total of the trained runs; NaN if no total is known. A run is cut after the first
    step that reaches it, where ``train.tokens`` would have stopped the run. Runs with the same ``train.tokens``
    therefore keep all steps, although their last steps overshoot by different amounts. Runs without training or without
    token counts are not cut.
    """
    spent = [_spent(run) for run in runs]
    # the smallest total, since no run has data beyond its end
    budget = min((float(tokens_S[-1]) for _, tokens_S in spent if len(tokens_S)), default=math.nan)
    return budget, [_compared(run, *known, budget) for run, known in zip(runs, spent, strict=True)]


def _spent(run: RunData) -> tuple[Floats, Floats]:
    """Return training steps, and tokens generated up to and including each step; two empty arrays if unknown."""
    if "tokens" in run.metrics:
        steps_S, tokens_S = run.metrics["step"], run.metrics["tokens"]
        known_S = ~np.isnan(tokens_S)
        return steps_S[known_S], tokens_S[known_S]
    columns = run.query(
        "SELECT step, sum(tokens)::DOUBLE AS tokens, count(*) = count(tokens) AS known FROM rollouts "
        "WHERE split = 'train' GROUP BY step ORDER BY step"
    )
    if not columns["known"].all() or verified_split(run) == "train":
        return np.zeros(0), np.zeros(0)
    return columns["step"].astype(np.float64), np.cumsum(columns["tokens"])


def _compared(run: RunData, steps_S: Floats, tokens_S: Floats, budget: float) -> ComparedRun:
    # includes the step that reaches the budget, as a run with this limit would
    kept = min(int(np.searchsorted(tokens_S, budget)) + 1, len(tokens_S))
    if kept < len(tokens_S):
        run = _stopped(run, int(steps_S[kept - 1]))
    run = replace(run, evaluations=evaluations_of(run))
    steps = len(steps_S) or int(
        run.query("SELECT count(DISTINCT step) AS n FROM rollouts WHERE split = 'train'")["n"][0]
    )
    return ComparedRun(
        run=run,
        steps_S=steps_S[:kept],
        tokens_S=tokens_S[:kept],
        total_steps=steps,
        total_tokens=float(tokens_S[-1]) if len(tokens_S) else math.nan,
        step=max(run.evaluations, default=None),
        split=verified_split(run),
    )


def _stopped(run: RunData, step: int) -> RunData:
    """Return the run without any data after a step. The original must not be used afterwards."""
    gather(run)
    if run.has("gathered"):
        run.db.execute(f"DELETE FROM gathered WHERE step > {step}")
    else:  # a table in memory
        run.db.execute(f"CREATE TEMP TABLE kept AS SELECT * FROM rollouts WHERE step <= {step}")
        run.db.unregister("rollouts")
        run.db.execute("CREATE TEMP VIEW rollouts AS SELECT * FROM kept")
    kept_S = run.metrics["step"] <= step if run.metrics else None
    return replace(
        run,
        metrics={name: values_S[kept_S] for name, values_S in run.metrics.items()},
        evaluations={at: one for at, one in run.evaluations.items() if at <= step},
    )
