"""What the processes of ``test_learner_contract.py`` do; a module of its own, because they import it by name."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import NamedTuple

import numpy as np

from outrider.learn.held import WholeModel
from outrider.learn.learner import Learner
from outrider.learn.options import LearnOptions
from outrider.learn.sharded import ShardedModel
from outrider.model.load import Policy
from outrider.model.lora import add_adapter
from outrider.model.options import LoraOptions
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import PolicyLoss
from outrider.record.row import TrainingRow
from outrider.sample.ready import ready
from outrider.train.ranks import Ranks
from small import random_policy


class Trial(NamedTuple):
    """A model and an objective to train it with."""

    family: str = "qwen2"
    lora: bool = False
    kl: float = 0.0
    reset_every: int | None = None
    checkpointing: bool = False
    tied: bool = True
    micro_tokens: int = 40
    rows: int = 7


def rows_of(trial: Trial, step: int) -> list[TrainingRow]:
    """Ragged rows with advantages of both signs; fewer rows than ranks in one of the steps."""
    rng = np.random.default_rng([step, trial.rows])
    made = []
    for i in range(1 if step == 3 else trial.rows):
        context, own = int(rng.integers(1, 6)), int(rng.integers(1, 14))
        made.append(
            TrainingRow(
                context_ids=rng.integers(5, 30, context).astype(np.int32),
                token_ids=rng.integers(5, 30, own).astype(np.int32),
                old_logprobs_N=np.full(own, -3.0, np.float32),
                advantages_N=np.full(own, float(rng.normal())),
                trainable_N=np.ones(own, np.bool_),
                group=f"g{i % 3}",
                seed=i,
            )
        )
    return made


def learner_of(trial: Trial, ranks: Ranks, sharded: bool) -> Learner:
    policy: Policy = random_policy(trial.family, tie_word_embeddings=trial.tied)
    if trial.lora:
        add_adapter(policy.model, LoraOptions(rank=4, alpha=8.0), 0)
    policy = ready(policy)[0]
    loss = PolicyLoss(ObjectiveOptions(kl={"coef": trial.kl, "estimator": "k3", "reset_every": trial.reset_every}), 24)
    options = LearnOptions(
        lr=1e-3, micro_tokens=trial.micro_tokens, gradient_checkpointing=trial.checkpointing, minibatches=2
    )
    hold = ShardedModel if sharded else WholeModel
    return Learner(policy.model, options, loss, ranks.rank, ranks.size, ranks.sum_, path=policy.path, hold=hold)


def train(ranks: Ranks, trial: Trial, sharded: bool, steps: int, out: Path, start: Path | None = None) -> int:
    """Train, from the state of another training if one is named, and write down what came of it."""
    learner = learner_of(trial, ranks, sharded)
    first = 0
    if start is not None:
        learner.load(start / "checkpoint")
        first = learner.steps
    if ranks.main:
        for name in ("checkpoint", "export"):
            (out / name).mkdir(parents=True)
    ranks.from_main(lambda: None)
    metrics = [learner.update(rows_of(trial, step)).metrics for step in range(first, first + steps)]
    logprobs = learner.logprobs(rows_of(trial, 0))
    if ranks.main or not learner.held.whole:
        learner.save(out / "checkpoint")
    learner.export(out / "export")
    if ranks.main:
        (out / "result").write_bytes(pickle.dumps({"metrics": metrics, "logprobs": logprobs}))
    return 0
