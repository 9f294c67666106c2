"""Definitions of terms, which pages show below the tables that use the terms."""

from __future__ import annotations

from collections.abc import Mapping

from outrider.view.problem_filter import KINDS, USES

WORDS: Mapping[str, str] = {
    "split": "Purpose of the rollouts: train, evaluate (samples on held-out problems) or greedy (one greedy response "
    "to each held-out problem).",
    "level": "Category of the problem given by the task, such as its difficulty.",
    "stage": "Component of the recipe that requested the rollout: its position and its name.",
    "stream": "Rollouts with a loss of their own: main, and branches if the recipe separates them.",
    "used for": "; ".join(f"{name}: {meaning}" for name, meaning in USES.items()) + ".",
    "status": "; ".join(f"{name}: {meaning}" for name, meaning in KINDS.items())
    + ". Steps are evaluations; for problems that were never evaluated, training steps.",
    "steps": "Number of evaluations with verdicts of the problem; training steps if it was never evaluated. Rates, "
    "change and successes use the same steps.",
    "first, best, last": "Pass rates in the first, the best and the last step.",
    "change": "Last minus first pass rate, in percentage points.",
    "solved in": "First and last step with a success.",
    "steps since": "Steps with verdicts of the problem after its last success.",
    "predicted": "Pass rate predicted by a stage before the step, from earlier steps only.",
    "not trained on": "Rollouts that no update used; each rollout names the reason.",
}
"""Definitions by term."""
