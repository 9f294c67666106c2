"""A whole step of a recipe, for ``gpu.py``: explore, verify, credit, learn, hand over, as ``outrider train`` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from _gpu_measure import begin, rate
from _gpu_model import Size, recipe_of

from outrider.processes.clock import Clock
from outrider.processes.ranks import Ranks
from outrider.train.build import build
from outrider.train.engines import open_policy


def one_step(size: Size, folder: Path, name: str, engine: str) -> dict[str, Any]:
    """The second step; the first warms up. Generated tokens by the seconds of all phases but writing rollouts."""
    recipe, clock = recipe_of(name, size, folder, engine), Clock()
    policy, _ = open_policy(recipe, Ranks())
    trainer = build(recipe, policy, Ranks(), clock)
    try:
        trainer.sync_weights(0)
        for _ in range(2):
            clock.take()
            start = begin()
            _, metrics = trainer.step()
            result = rate(int(metrics["step_tokens"]), start)
    finally:
        trainer.collect.close()
        recipe.task.close()
    stages = {key.split("/")[1]: int(n) for key, n in metrics.items() if key.endswith("/rollouts")}
    if metrics.get("learn/updates") != 1.0 or len(stages) < len(recipe.explore):
        raise RuntimeError(f"not a whole step: {metrics}")
    return {
        **result,
        "phases": {phase: round(seconds, 3) for phase, seconds in clock.take().items()},
        "rollouts": stages,
        "tokens": int(metrics["step_tokens"]),
        "success": round(metrics["success"], 3),
        "updates": int(metrics["learn/updates"]),
        "probe_mean": metrics["sync/probe_mean"],
    }
