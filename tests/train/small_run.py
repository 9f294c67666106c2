"""A small run of the shipped base model, and what two equal runs of it share."""

from __future__ import annotations

from pathlib import Path

from outrider.config import Recipe, load_recipe
from outrider.record import Rollout
from outrider.record.store import RolloutStore

SMALL = [
    "train.problems=4",
    "explore.0.n=4",
    "train.tokens=null",
    "train.steps=4",
    "train.save_every=2",
    "train.trackers=[]",
    "train.ranks=1",
    "sample.max_tokens=40",
    "task.countdown.sizes=[3,4]",  # short responses, mixed groups
    "evaluate.problems=4",
    "evaluate.n=2",
    "evaluate.bootstrap=50",
]


def recipe(*overrides: str, name: str = "grpo") -> Recipe:
    return load_recipe(name, [*SMALL, *overrides])


def plain(rollout: Rollout) -> tuple[object, ...]:
    """Everything of a rollout but the seconds its verdict took."""
    assert rollout.verdict is not None
    verdict = rollout.verdict
    arrays = (rollout.token_ids, rollout.logprobs_T, rollout.entropies_T, rollout.prompt_ids, rollout.prefix_ids)
    return (
        rollout.id,
        *(None if a is None else a.tobytes() for a in arrays),
        (verdict.outcome, verdict.score, verdict.answer, verdict.detail),
        (rollout.reward, rollout.advantage, rollout.unused, rollout.seed, rollout.policy_version, rollout.stop),
    )


def contents(folder: Path) -> dict[str, object]:
    """What two equal runs share to the last bit."""
    store = RolloutStore(folder / "rollouts")
    return {
        "weights": (folder / "model" / "model.safetensors").read_bytes(),
        "metrics": (folder / "metrics.jsonl").read_bytes(),
        "rollouts": [plain(r) for name in store.names() for step in store.steps(name) for r in store.read(step, name)],
        "evaluations": [(p.name, p.read_bytes()) for p in sorted((folder / "evaluations").iterdir())],
    }
