"""What the processes of ``test_ranks.py`` do; a module of its own, because they import it by name."""

from __future__ import annotations

import os
import pickle
import signal
from pathlib import Path

import torch

from outrider.config import load_recipe
from outrider.errors import UserError
from outrider.explore.explorer import Explorer
from outrider.interrupts import STOPS
from outrider.model.load import load_policy
from outrider.model.lora import add_adapter, write_adapter
from outrider.model.options import LoraOptions, TrainedPolicyOptions
from outrider.record.row import TrainingRow
from outrider.sample.options import SampleOptions, Vllm
from outrider.sample.ready import ready
from outrider.sample.vllm import VllmSampler
from outrider.train.clock import Clock
from outrider.train.loop import Trainer
from outrider.train.ranks import Ranks
from outrider.train.run import build
from small import random_policy, request

OVERRIDES = [
    "train.problems=6",
    "explore.0.n=5",
    "task.countdown.sizes=[3,4]",
    "sample.max_tokens=40",
    "learn.micro_tokens=700",
    "train.steps=3",
    "train.tokens=null",
]


def trainer(ranks: Ranks) -> Trainer:
    recipe = load_recipe("grpo", OVERRIDES)
    return build(recipe, ready(load_policy(recipe.model))[0], ranks, Clock())


def draw(ranks: Ranks, out: Path) -> int:
    """One step's rollouts, as they are after gathering."""
    made = trainer(ranks)
    groups = made.explorer.explore(1, 6, made.collect).groups
    if ranks.main:
        out.write_bytes(pickle.dumps([r for group in groups for r in group.rollouts]))
    return 0


def learn(ranks: Ranks, rows: Path, out: Path) -> int:
    """Three updates from given rows, then the weights."""
    made = trainer(ranks)
    batch: list[TrainingRow] = pickle.loads(rows.read_bytes())
    metrics = [made.learner.update(batch).metrics for _ in range(3)]
    if ranks.main:
        out.write_bytes(pickle.dumps(([p.detach() for p in made.learner.parameters], metrics)))
    return 0


def refuse_on(ranks: Ranks, rank: int, where: str) -> int:
    """A mistake of the user that one rank alone meets, in a gather or on the planning rank."""
    if where == "gather":
        ranks.gather(lambda: _refuse() if ranks.rank == rank else [])
    else:
        ranks.from_main(_refuse)
    return 0


def gather_in_order(ranks: Ranks) -> int:
    """Parts come in rank order, sums are added, and what rank 0 makes is made once."""
    assert ranks.gather(lambda: [ranks.rank] * (ranks.rank + 1)) == [0, 1, 1]
    assert ranks.sum_(torch.tensor([1.0, ranks.rank])).tolist() == [2.0, 1.0]
    assert ranks.from_main(lambda: os.getpid()) == ranks.gather(lambda: [os.getpid()])[0]
    assert len(set(ranks.gather(lambda: [tuple(os.sched_getaffinity(0))]))) == 2 or os.cpu_count() != 2
    assert torch.get_num_threads() == 1
    return 7


def adapter_over_http(ranks: Ranks, addresses: list[str], folder: Path) -> int:
    """Two versions of an adapter, and what every rank draws with each."""
    policy = random_policy()._replace(options=TrainedPolicyOptions(lora=LoraOptions(rank=4)))
    add_adapter(policy.model, policy.options.lora, seed=0)
    engine = Vllm(servers=addresses, folder=str(folder), seconds=5.0)
    sampler = VllmSampler(policy, SampleOptions(max_tokens=24), engine, ranks.from_main, ranks.rank)
    assert sampler.takes_adapter
    for version in (1, 2):
        sampler.take(version, lambda folder: write_adapter(policy.model, folder) if ranks.main else None)
        requests = [request(f"{version}-{ranks.rank}-{i}", [1, 5], n=2) for i in range(3)]
        ranks.gather(lambda requests=requests: sampler.sample(requests))
    sampler.close()
    return 0


def cores(ranks: Ranks) -> int:
    return ranks.cores


def surroundings(ranks: Ranks) -> int:
    """Rank 1 has this run's environment, and leaves Ctrl-C and SIGTERM to rank 0."""
    there = ranks.gather(lambda: [(os.environ["OF_THIS_RUN"], *map(signal.getsignal, STOPS))] * ranks.rank)
    assert there == [("yes", signal.SIG_IGN, signal.SIG_IGN)]
    return 0


def _refuse() -> list[Explorer]:
    raise UserError("problem 'p' is too long")
