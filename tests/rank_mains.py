"""What the processes of ``test_ranks.py`` do; a module of its own, because they import it by name."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from outrider.config import load_recipe
from outrider.errors import EngineLostError, UserError
from outrider.explore.explorer import Explorer
from outrider.interrupts import STOPS
from outrider.learn.local import LocalLearner
from outrider.learn.options import LearnOptions
from outrider.model.load import Policy, load_policy
from outrider.model.lora import add_adapter, write_adapter
from outrider.model.options import LoraOptions, TrainedPolicyOptions
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import PolicyLoss
from outrider.processes.clock import Clock
from outrider.processes.ranks import Ranks
from outrider.record.row import WeightedRow
from outrider.sample.options import SampleOptions, Vllm
from outrider.sample.ready import ready
from outrider.sample.vllm import VllmSampler
from outrider.train.build import build
from outrider.train.engines import open_policy
from outrider.train.loop import Trainer
from outrider.train.weight_sync import WeightSync
from sharded_mains import Trial, learner_of, rows_of
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
    batch: list[WeightedRow] = pickle.loads(rows.read_bytes())
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


def two_threads(ranks: Ranks) -> int:
    """Collectives of two threads at the same time, in another order on each rank; the second thread's fail at last."""
    beside, found, failed = ranks.beside(), list[tuple[int, int]](), list[str]()

    def explore() -> None:
        for i in range(200):
            found.extend(beside.gather(partial(lambda i: [(i, ranks.rank)], i)))
        failed.append(said_by(beside, lambda: beside.gather(lambda: _refuse() if ranks.rank == 1 else [])))

    def add() -> list[float]:
        return [ranks.sum_(torch.tensor([float(i)])).item() for i in range(100)]

    thread = threading.Thread(target=explore)
    if ranks.main:
        thread.start()
    sums = add()
    if not ranks.main:
        thread.start()
    sums += add()
    thread.join()
    assert sums == [2.0 * i for i in range(100)] * 2
    assert found == [(i, rank) for i in range(200) for rank in range(2)]
    assert "too long" in failed[0]
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


def all_find(ranks: Ranks, file: Path) -> int:
    """Each rank looks for a file as soon as it begins."""
    there = file.exists()
    assert ranks.gather(lambda: [there]) == [True] * ranks.size
    return 0


def surroundings(ranks: Ranks) -> int:
    """Rank 1 has this run's environment, and leaves Ctrl-C and SIGTERM to rank 0."""
    there = ranks.gather(lambda: [(os.environ["OF_THIS_RUN"], *map(signal.getsignal, STOPS))] * ranks.rank)
    assert there == [("yes", signal.SIG_IGN, signal.SIG_IGN)]
    return 0


FAILURES = {
    "user": lambda: UserError("rank cannot"),
    "lost": lambda: EngineLostError("rank cannot"),
    "unsendable": lambda: UnsendableError("rank cannot"),
}


def fail_between(ranks: Ranks, out: Path) -> int:
    """Each rank in turn fails before a collective in which the others wait already; all write what they raise."""
    said = {}
    for kind, failure in FAILURES.items():
        for rank in range(ranks.size):
            said[f"{kind} {rank}"] = said_by(ranks, partial(_fail_between, ranks, rank, failure))
    return _write_down(ranks, said, out)


def _fail_between(ranks: Ranks, rank: int, failure: Callable[[], Exception]) -> None:
    if ranks.rank == rank:
        raise failure()
    for _ in range(3):
        ranks.from_main(lambda: "a folder")
    ranks.gather(lambda: [ranks.rank])


def said_by(ranks: Ranks, work: Callable[[], object]) -> str:
    """What this rank raises; all ranks are in step after that."""
    try:
        ranks.together(work)
    except Exception as error:  # noqa: BLE001 - that of all kinds
        assert ranks.gather(lambda: [ranks.rank]) == list(range(ranks.size))
        return f"{type(error).__name__}: {error}"
    return ""


def _write_down(ranks: Ranks, said: object, out: Path) -> int:
    heard = ranks.gather(lambda: [said])
    if ranks.main:
        out.write_text(json.dumps(heard))
    return 0


class UnsendableError(Exception):
    """Has one argument more than it hands on, so that a copy cannot be made."""

    def __init__(self, text: str, more: int = 1) -> None:
        super().__init__(text, more, "too many")


class Unreadable:
    """A sampler that one rank cannot hand weights to."""

    engines = 1

    def __init__(self, ranks: Ranks, rank: int) -> None:
        self.ranks, self.rank = ranks, rank

    def take(self, version: int, export: Callable[[Path], None]) -> dict[str, int]:
        with tempfile.TemporaryDirectory() as folder:
            export(Path(folder))
            self.ranks.from_main(lambda: None)
            if self.ranks.rank == self.rank:
                raise EngineLostError("vLLM fails in this process (OutOfMemoryError)")
        return {}


def open_and_sync(ranks: Ranks, out: Path) -> int:
    """A model that one rank does not find, and, with shares of the weights, an engine that fails on one rank."""
    said = {}
    learner = learner_of(Trial(), ranks, sharded=True)
    for rank in range(ranks.size):
        recipe = load_recipe("grpo", ["model=no/such/folder" if ranks.rank == rank else "model=base:countdown"])
        said[f"model {rank}"] = said_by(ranks, partial(open_policy, recipe, ranks))
        said[f"engine {rank}"] = said_by(ranks, partial(WeightSync(Unreadable(ranks, rank), learner, ranks, []), 1))
    return _write_down(ranks, said, out)


def open_shares(ranks: Ranks, out: Path) -> int:
    """Open a policy whose weights will be shared out; write down its path, what checked it, and what it computes."""
    from outrider.sample import fused, local, ready, self_check

    done = []

    class Seen(self_check.SelfCheck):
        def __init__(self, policy: Policy) -> None:
            done.append("checked")
            super().__init__(policy)

    class Copied(fused.FusedDecoder):
        def __init__(self, *arguments: Any) -> None:
            done.append("copied")
            super().__init__(*arguments)

    engine = "engine={learner: fsdp2, sampler: {vllm: {servers: ['http://a:1']}}}"
    # rank 0 is the process of the tests, whose modules have to stay as they are
    with mock.patch.object(ready, "SelfCheck", Seen), mock.patch.object(local, "FusedDecoder", Copied):
        policy, sentence = open_policy(load_recipe("grpo", [*OVERRIDES, engine]), ranks)
    logprobs = LocalLearner(policy.model, LearnOptions(), PolicyLoss(ObjectiveOptions(), 24), path=policy.path).logprobs
    return _write_down(ranks, [policy.path.name, sentence, done, float(logprobs(rows_of(Trial(), 0))[0][0])], out)


class Deadly(PolicyLoss):
    """Kills its process in the second micro-batch."""

    calls = 0

    def __call__(self, *arguments: Any) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        self.calls += 1
        if self.calls == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(*arguments)


def die_learning(ranks: Ranks, rank: int) -> int:
    learner = learner_of(Trial(), ranks, sharded=True)
    if ranks.rank == rank:
        learner.loss = Deadly(ObjectiveOptions(), 24)
    learner.update(rows_of(Trial(), 0))
    return 0


def wait_in_vain(ranks: Ranks) -> int:
    """As with NCCL, which does not say that the other rank has died."""
    if ranks.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with ranks.linked():
        time.sleep(600)
    return 0


def verify_long(ranks: Ranks) -> int:
    """Rank 0 is busy when the other one dies, and saves what it has."""
    if ranks.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(4)
    sys.stdout.write("saved")
    return 0


def end_alone(ranks: Ranks) -> int:
    """One rank ends with a sentence that no collective has carried."""
    if ranks.rank == 1:
        raise UserError("this machine has no disk")
    ranks.gather(lambda: [0])
    return 0


def _refuse() -> list[Explorer]:
    raise UserError("problem 'p' is too long")
