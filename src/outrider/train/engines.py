"""The engines of a run: the one place that knows which code stands behind their names."""

from __future__ import annotations

from functools import partial

import torch

from outrider.config import Recipe
from outrider.learn.held import WholeModel
from outrider.learn.learner import Hold, Learner
from outrider.learn.options import Fsdp2
from outrider.model.device import placement
from outrider.model.load import Policy
from outrider.objective.policy_loss import PolicyLoss
from outrider.sample.handed_weights import HandedWeights
from outrider.sample.options import Vllm
from outrider.sample.sampler import Sampler
from outrider.train.ranks import Ranks


def open_sampler(recipe: Recipe, policy: Policy, ranks: Ranks) -> Sampler:
    """The sampler of a recipe.

    Raises:
        UserError: its engine cannot be had.
    """
    if isinstance(recipe.engine.sampler, Vllm):
        return _vllm(recipe.engine.sampler, recipe, policy, ranks)
    from outrider.sample.local import LocalSampler

    return LocalSampler(policy, recipe.sample)


def _vllm(engine: Vllm, recipe: Recipe, policy: Policy, ranks: Ranks) -> Sampler:
    if engine.servers:
        from outrider.sample.vllm import VllmSampler

        return VllmSampler(policy, recipe.sample, engine, ranks.from_main)
    from outrider.sample.vllm_engine import VllmEngine
    from outrider.sample.vllm_inside import VllmInside

    weights = HandedWeights(engine.folder, ranks.from_main)
    return VllmInside(policy, recipe.sample, VllmEngine(policy, weights, engine.memory, ranks.rank, ranks.size))


def open_learner(recipe: Recipe, policy: Policy, ranks: Ranks) -> Learner:
    """The learner of a recipe.

    Raises:
        UserError: its engine cannot be had.
    """
    loss = PolicyLoss(recipe.objective, recipe.sample.max_tokens)
    dtype = placement(recipe.policy.dtype).dtype
    hold: Hold = WholeModel
    if isinstance(recipe.engine.learner, Fsdp2):
        from outrider.learn.sharded import ShardedModel

        hold = partial(ShardedModel, offload=recipe.engine.learner.offload)
    return Learner(policy.model, recipe.learn, loss, ranks.rank, ranks.size, ranks.sum_, dtype, policy.path, hold)


def loads_on(recipe: Recipe) -> torch.device:
    """Where the policy is loaded: in the host's memory, if the learner divides it among several devices."""
    return torch.device("cpu") if isinstance(recipe.engine.learner, Fsdp2) else placement().device
