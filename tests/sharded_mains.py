"""What the processes of ``test_learner_contract.py`` do; a module of its own, because they import it by name."""

from __future__ import annotations

import gc
import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch.distributed.tensor import DTensor

from outrider.learn import sharded
from outrider.learn.held import WholeModel
from outrider.learn.local import LocalLearner
from outrider.learn.options import LearnOptions
from outrider.learn.sharded import ShardedModel
from outrider.model.device import placement
from outrider.model.load import Policy
from outrider.model.lora import add_adapter
from outrider.model.options import LoraOptions
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import PolicyLoss
from outrider.processes.ranks import Ranks
from outrider.record.row import WeightedRow
from outrider.sample.ready import ready
from small import random_policy


def save_large(ranks: Ranks, sharded: bool, out: Path) -> int:
    """Train and save a model of tens of megabytes a layer; write down what saving took beside what is saved."""
    size = {"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 8}
    learner = learner_of(Trial(kl=0.0), ranks, sharded, size)
    learner.update(rows_of(Trial(), 0))
    own = 3 * sum(local(parameter).nbytes for parameter in learner.parameters)  # with AdamW's two moments
    if ranks.main:
        out.mkdir()
    ranks.from_main(lambda: None)
    learner.save(out)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the kernel begins a new maximum
    before = status("VmRSS")
    learner.save(out)
    taken = ranks.gather(lambda: [(status("VmHWM") - before, own)])
    if ranks.main:
        (out / "taken").write_text(json.dumps(taken))
    return 0


def look_where_one_cannot_see(ranks: Ranks, out: Path) -> int:
    """As on a machine that has another disk under that name."""
    (out / "0").mkdir(parents=True, exist_ok=True)
    ranks.refuse_unseen(out / str(ranks.rank))
    return 0


def local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def status(key: str) -> int:
    """Bytes of a line of the process's status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def _storages() -> dict[int, int]:
    """The bytes of all storages by their place."""
    tensors = (one for one in gc.get_objects() if type(one) in (torch.Tensor, torch.nn.Parameter) and not one.is_meta)
    return {one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in tensors}


def hold_and_gather(ranks: Ranks, out: Path) -> int:
    """Beside an adapter, with a reference: bytes of all storages by kind, and what an adapter's weight sync gathers."""
    # rank 0 is the tests' own process; in a new one there are none, and torch 2.9 may crash on tensors that the
    # collector lists
    of_others = {} if ranks.rank else _storages()
    learner = learner_of(Trial(lora=True, kl=0.1), ranks, sharded=True, size={"hidden_size": 64})
    learner.update(rows_of(Trial(), 0))
    gc.collect()
    storages = {place: size for place, size in _storages().items() if place not in of_others}
    model = sum(local(parameter).nbytes for parameter in learner.model.parameters())
    trained = sum(local(parameter).nbytes for parameter in learner.parameters)
    gathered = 0
    whole = sharded._whole

    def counted(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal gathered
        gathered += whole(tensor).nbytes
        return whole(tensor)

    sharded._whole = counted  # type: ignore[assignment]
    folder = out / str(ranks.rank)
    folder.mkdir(parents=True)
    learner.export(folder, adapter=True)
    sharded._whole = whole
    numbers = {"held": sum(storages.values()), "model": model, "trained": trained, "gathered": gathered}
    (out / f"{ranks.rank}.json").write_text(json.dumps(numbers))
    return 0


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
    dtype: torch.dtype = torch.float32


def rows_of(trial: Trial, step: int) -> list[WeightedRow]:
    """Ragged rows with advantages of both signs; fewer rows than ranks in one of the steps."""
    rng = np.random.default_rng([step, trial.rows])
    made = []
    for i in range(1 if step == 3 else trial.rows):
        context, own = int(rng.integers(1, 6)), int(rng.integers(1, 14))
        made.append(
            WeightedRow(
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


def learner_of(trial: Trial, ranks: Ranks, sharded: bool, size: Mapping[str, int] | None = None) -> LocalLearner:
    policy: Policy = random_policy(trial.family, tie_word_embeddings=trial.tied, **(size or {}))
    if trial.lora:
        add_adapter(policy.model, LoraOptions(rank=4, alpha=8.0), 0)
    if not sharded:  # shares find their device by themselves
        policy.model.to(placement().device)
    # which path is right is shown elsewhere, and its check is a tenth of what these processes compute
    policy = ready(policy._replace(options=policy.options.model_copy(update={"check": False})))[0]
    loss = PolicyLoss(ObjectiveOptions(kl={"coef": trial.kl, "estimator": "k3", "reset_every": trial.reset_every}), 24)
    options = LearnOptions(
        lr=1e-3, micro_tokens=trial.micro_tokens, gradient_checkpointing=trial.checkpointing, minibatches=2
    )
    hold = ShardedModel if sharded else WholeModel
    return LocalLearner(policy.model, options, loss, ranks, trial.dtype, policy.path, hold)


def train(ranks: Ranks, trial: Trial, sharded: bool, steps: int, out: Path, start: Path | None = None) -> int:
    """Train, from the state of another training if one is named, and write down what came of it."""
    learner = learner_of(trial, ranks, sharded)
    untrained = learner.logprobs(rows_of(trial, 0))
    first = 0
    if start is not None:
        learner.load(start / "checkpoint")
        first = learner.steps
    if ranks.main:
        for name in ("checkpoint", "export"):
            (out / name).mkdir(parents=True)
    ranks.from_main(lambda: None)
    updates = [learner.update(rows_of(trial, step)) for step in range(first, first + steps)]
    metrics, seen = [one.metrics for one in updates], [one.logprobs for one in updates]
    logprobs = learner.logprobs(rows_of(trial, 0))
    if ranks.main or not learner.held.whole:
        learner.save(out / "checkpoint")
    learner.export(out / "export")
    if ranks.main:
        result = {"metrics": metrics, "logprobs": logprobs, "untrained": untrained, "seen": seen}
        (out / "result").write_bytes(pickle.dumps(result))
    return 0
