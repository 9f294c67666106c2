"""Rejects a recipe if its engines do not support one of its options. The check runs when the recipe is read, before any
computation starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from outrider.config.engine import EngineOptions
from outrider.config.train import TrainOptions
from outrider.explore import Stage
from outrider.learn.options import Fsdp2, LearnOptions, Tinker
from outrider.model.options import TrainedPolicyOptions
from outrider.objective.options import ObjectiveOptions
from outrider.sample.options import SampleOptions, Vllm
from outrider.tasks.task import Task
from outrider.tasks.turn_task import TurnTask


class Carried(Protocol):
    """The sections of a recipe that the engines must support."""

    @property
    def engine(self) -> EngineOptions: ...
    @property
    def policy(self) -> TrainedPolicyOptions: ...
    @property
    def task(self) -> Task: ...
    @property
    def explore(self) -> Sequence[Stage]: ...
    @property
    def objective(self) -> ObjectiveOptions: ...
    @property
    def sample(self) -> SampleOptions: ...
    @property
    def learn(self) -> LearnOptions: ...
    @property
    def train(self) -> TrainOptions: ...
    @property
    def reads_entropies(self) -> bool: ...


def refuse_engine(recipe: Carried) -> None:
    """Raise ValueError if a recipe's engines do not support the rest of the recipe."""
    if isinstance(recipe.engine.learner, Fsdp2):
        _refuse_fsdp2(recipe)
    if isinstance(recipe.engine.learner, Tinker):
        _refuse_tinker(recipe)
    if recipe.train.lag:
        _refuse_lag(recipe)


def _refuse_lag(recipe: Carried) -> None:
    """Raise ValueError if sampling and learning cannot run at the same time."""
    sampler = recipe.engine.sampler
    if isinstance(recipe.engine.learner, Tinker):
        raise ValueError("train.lag is not supported with engine=tinker: train.lag=0")
    if isinstance(sampler, Vllm) and not sampler.servers:
        raise ValueError(
            "train.lag=1 samples during the update, and vLLM in the run's own processes shares their GPUs; sample with "
            "a vLLM server, as in engine.sampler={vllm: {servers: [http://127.0.0.1:8000]}}"
        )
    if isinstance(sampler, Vllm) and recipe.reads_entropies:
        raise ValueError(
            "train.lag=1 with vLLM servers has no entropies: a stage, a credit component or the objective reads them, "
            "vLLM returns none, and the learner, which would compute them, is busy with an update"
        )
    _refuse_measured(recipe, "train.lag=1, where the weights change at the same time,")


def _refuse_fsdp2(recipe: Carried) -> None:
    if "sampler" not in recipe.engine.names():
        raise ValueError(
            "engine.learner=fsdp2 shards the policy, and the local sampler needs all of it; "
            "sample with a vLLM server, as in engine.sampler={vllm: {servers: [http://127.0.0.1:8000]}}"
        )
    _refuse_measured(recipe, "engine.learner=fsdp2")


def _refuse_tinker(recipe: Carried) -> None:
    """Raise ValueError for options that a Tinker service does not support or would silently ignore."""
    objective, sample, learn, lora = recipe.objective, recipe.sample, recipe.learn, recipe.policy.lora
    _refuse_measured(recipe, "a Tinker service")
    if recipe.reads_entropies:
        raise ValueError(
            "a Tinker service returns no entropies, which a stage, a credit component or the objective reads"
        )
    if lora is None:
        raise ValueError("a Tinker service trains an adapter, not all weights: policy.lora={rank: 32}")
    said = {"alpha": lora.alpha, "targets": lora.targets}
    fixed = {"alpha": 32.0, "targets": "all-linear"}
    for key, value in fixed.items():
        if said[key] != value:
            raise ValueError(f"policy.lora.{key} is {said[key]}, and a Tinker service always takes {value}")
    if objective.kl.coef > 0:
        raise ValueError(
            f"objective.kl is {objective.kl.coef}, and a Tinker service keeps no reference: objective.kl=0"
        )
    if objective.surrogate.reads_top > 0:
        raise ValueError(
            "objective.surrogate reads the likeliest tokens at each place, and a Tinker service returns only the "
            "sampled one"
        )
    if objective.entropy.bonus > 0:
        raise ValueError("objective.entropy needs the entropy of every token, which a Tinker service does not return")
    if sample.temperature != 1:
        raise ValueError(
            f"sample.temperature is {sample.temperature}, and a Tinker service has its own for the likelihoods that "
            "are trained: sample.temperature=1"
        )
    if isinstance(recipe.task, TurnTask) and recipe.task.ends:
        raise ValueError(
            f"turns of task {recipe.task.name!r} end at texts ({', '.join(map(repr, recipe.task.ends))}); a Tinker "
            "service stops at tokens or at texts, and end tokens come first"
        )
    if sample.stop:
        raise ValueError(
            "sample.stop names texts; a Tinker service stops at tokens or at texts, and end tokens come first"
        )
    if learn.weight_decay > 0:
        raise ValueError(
            f"learn.weight_decay is {learn.weight_decay}; a Tinker service may leave it out, and SkyRL's JAX backend "
            "decays the adapters of all its users: learn.weight_decay=0"
        )
    if learn.recomputes:
        raise ValueError("learn.gradient_checkpointing is not supported with engine=tinker: leave it false")
    if learn.compile:
        raise ValueError("learn.compile is not supported with engine=tinker: leave it false")
    if learn.deterministic:
        raise ValueError("learn.deterministic is not supported with engine=tinker: leave it false")
    if recipe.train.ranks > 1:
        raise ValueError(
            f"train.ranks is {recipe.train.ranks}, and one process talks to a Tinker service: train.ranks=1"
        )


def _refuse_measured(recipe: Carried, engine: str) -> None:
    """Raise ValueError if a stage needs a forward pass that ``engine`` does not support."""
    for i, stage in enumerate(recipe.explore):
        if "branching" in stage.requires:
            raise ValueError(
                f"explore.{i} needs the policy's branching factors, which {engine} cannot measure; select responses by "
                "another criterion, such as entropy"
            )
        if "attention" in stage.requires:
            raise ValueError(
                f"explore.{i} needs the policy's attention, which {engine} cannot measure; select branches by another "
                "criterion, such as utility or surprisal"
            )
