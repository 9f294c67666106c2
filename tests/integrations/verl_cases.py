"""One step of a recipe by Outrider alone, and a server that answers as the policy of that step did."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from outrider.config import Recipe
from outrider.credit.assign import assign
from outrider.explore.explorer import Explorer
from outrider.explore.stream import ProblemStream
from outrider.integrations.verl_config_command import load_for_verl
from outrider.model.load import Policy, context_length, load_policy
from outrider.objective.policy_loss import PolicyLoss
from outrider.objective.tokens import TokenBatch
from outrider.processes.clock import Clock
from outrider.processes.ranks import Ranks
from outrider.record import Group, Rollout
from outrider.record.row import WeightedRow
from outrider.sample.local import LocalSampler
from outrider.sample.ready import ready
from outrider.tasks.heldout import heldout_problems
from outrider.train.collect import Collector
from outrider.train.evaluate import Evaluator

SMALL = ["train.steps=4", "train.tokens=null", "train.problems=6", "task.countdown.sizes=[3, 4]", "evaluate.problems=4"]
SMALL += ["evaluate.n=2", "evaluate.greedy=false", "evaluate.bootstrap=0"]
METHODS = {
    "grpo": ["objective.kl=0"],
    "dars-hw": ["explore.1.n_max=16"],
    "deep-grpo": ["explore.1.branches=3", "explore.1.cap=null", "objective.kl=0"],
}


def small(name: str, *overrides: str) -> Recipe:
    return load_for_verl(name, [*SMALL, *METHODS.get(name, []), *overrides], None)


@dataclass
class Recorded:
    """Verl's client, as far as it is used: answers from rollouts that were drawn before, by prompt and seed."""

    rollouts: list[Rollout]
    version: int = 0
    asked: list[tuple[tuple[int, ...], int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._by = {((*r.prompt_ids.tolist(), *r.prefix_ids.tolist()), r.seed): r for r in self.rollouts}
        self.config = None

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any]) -> Any:
        assert sampling_params["logprobs"]  # verl asks vLLM for none otherwise
        key = (tuple(prompt_ids), sampling_params["seed"])
        self.asked.append(key)
        found = self._by[key]
        assert sampling_params["max_tokens"] >= len(found.token_ids)
        return SimpleNamespace(
            token_ids=found.token_ids.tolist(),
            log_probs=found.logprobs_T.tolist(),
            stop_reason="completed",
            extra_fields={"global_steps": self.version},
        )


class Server:
    """One of verl's servers, as its client calls it: an actor that answers from rollouts."""

    def __init__(self, rollouts) -> None:
        self.recorded = Recorded(rollouts)

    async def generate(self, request_id, prompt_ids, sampling_params, image_data=None, video_data=None):
        from verl.workers.rollout.replica import TokenOutput

        answer = await self.recorded.generate(request_id, prompt_ids=prompt_ids, sampling_params=sampling_params)
        return TokenOutput(**vars(answer))

    def asked(self) -> int:
        """How many answers it has given."""
        return len(self.recorded.asked)


@dataclass
class Local:
    """A step by Outrider's own sampler, stages and credit."""

    recipe: Recipe
    policy: Policy
    groups: list[Group]
    rows: list[WeightedRow]

    @property
    def rollouts(self) -> list[Rollout]:
        return [rollout for group in self.groups for rollout in group.rollouts]


def local_step(recipe: Recipe, steps: int = 1) -> Local:
    """The last of so many steps, by one policy."""
    policy = ready(load_policy(recipe.model, recipe.policy))[0]
    sampler = LocalSampler(policy, recipe.sample)
    collect = Collector(sampler, recipe.task, recipe.reward, Ranks(), Clock())
    limit = context_length(policy.model) - recipe.sample.max_tokens
    stages, stream = copy.deepcopy(recipe.explore), ProblemStream(recipe.task.train)
    explorer = Explorer(stages, stream, policy, recipe.seed, prompt_limit=limit)
    for step in range(1, steps + 1):
        explored, _ = explorer.explore(step, recipe.train.problems, collect, (step - 1) / recipe.train.steps)
    loss = PolicyLoss(recipe.objective, recipe.sample.max_tokens)
    rows, groups = assign(explored, recipe.credit, steps, loss.needs.all_rows, policy.encode, recipe.objective.prefix)
    return Local(recipe, policy, groups, rows)


def local_evaluation(recipe: Recipe) -> list[Rollout]:
    """The responses to the held-out problems."""
    policy = ready(load_policy(recipe.model, recipe.policy))[0]
    collect = Collector(LocalSampler(policy, recipe.sample), recipe.task, recipe.reward, Ranks(), Clock())
    problems = heldout_problems(recipe.task, recipe.evaluate)
    return Evaluator(problems, policy.encode, collect, recipe.evaluate, recipe.sample.params()).run().sampled


def moved(ids: np.ndarray, old: np.ndarray, by: float, seed: int) -> np.ndarray:
    """Log-probabilities near ``old``, as another engine or a later policy has them: a function of the row alone."""
    noise = np.random.default_rng([seed, len(ids), *ids.tolist()]).normal(size=len(old))
    return (old - by * np.abs(noise) * np.sign(noise - 0.3)).astype(np.float32)


def local_loss(local: Local) -> tuple[float, dict[tuple[bytes, bytes, int], np.ndarray]]:
    """The loss of the whole step, and its gradient by each token's log-probability, by context and seed of the row."""
    recipe = local.recipe
    loss = PolicyLoss(recipe.objective, recipe.sample.max_tokens)
    learners = [moved(row.token_ids, row.old_logprobs_N, 0.1, 1) for row in local.rows]
    rows, _ = loss.begin(local.rows, lambda rows: learners)
    weighted = loss.prepare(rows)
    new = [
        torch.tensor(moved(row.token_ids, row.old_logprobs_N, 0.3, 2), dtype=torch.float64, requires_grad=True)
        for row in local.rows
    ]
    flat = torch.cat(new)
    reference = None
    if recipe.objective.kl.coef:
        reference = torch.cat([torch.tensor(moved(row.token_ids, row.old_logprobs_N, 0.2, 3)) for row in local.rows])
    entropies = torch.cat([torch.tensor(moved(row.token_ids, -row.old_logprobs_N, 0.2, 4)) for row in local.rows])
    value, _ = loss(TokenBatch.of(weighted, flat), flat, entropies, reference)
    gradients = torch.autograd.grad(value, new)
    keys = [(row.context_ids.tobytes(), row.token_ids.tobytes(), row.seed) for row in local.rows]
    return value.item(), dict(zip(keys, (g.numpy() for g in gradients), strict=True))
