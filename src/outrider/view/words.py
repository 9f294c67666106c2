"""Words of the pages that need a sentence, which stands on the page below what uses them."""

from __future__ import annotations

from collections.abc import Mapping

from outrider.view.problem_filter import KINDS, USES

WORDS: Mapping[str, str] = {
    "split": "What rollouts were drawn for: train, evaluate (samples on evaluation problems) or greedy (one response "
    "to each of these, always the most likely token).",
    "level": "The group of problems that the task puts the problem in, such as its difficulty.",
    "stage": "The part of the recipe that asked for the rollout: its place and its name.",
    "stream": "Rollouts whose losses are averaged together; main, unless the recipe trains on others apart, such as "
    "branches.",
    "used for": "; ".join(f"{name}: {meaning}" for name, meaning in USES.items()) + ".",
    "status": "; ".join(f"{name}: {meaning}" for name, meaning in KINDS.items())
    + ". Steps are evaluations where the problem was evaluated, else training steps.",
    "steps": "Evaluations that verified the problem, or training steps where it was not evaluated; the rates, the "
    "change and the successes are of the same steps.",
    "first, best, last": "The pass rates of the first step, of the best one and of the last one.",
    "change": "The last pass rate less the first, in percentage points.",
    "solved in": "The first and the last step with a success.",
    "steps since": "Steps that verified the problem after its last success, all without one.",
    "predicted": "The pass rate that a stage expected before the step, from earlier steps alone.",
    "not trained on": "Rollouts that no update used, for one of the reasons that each of them tells.",
}
"""A sentence for each word."""
