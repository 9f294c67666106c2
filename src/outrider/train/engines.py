"""The engines of a run: the one place that knows which code stands behind their names."""

from __future__ import annotations

from outrider.config import Recipe
from outrider.learn.learner import Learner
from outrider.model.device import placement
from outrider.model.load import Policy
from outrider.objective.policy_loss import PolicyLoss
from outrider.sample.options import Vllm
from outrider.sample.sampler import Sampler
from outrider.train.ranks import Ranks


def open_sampler(recipe: Recipe, policy: Policy, ranks: Ranks) -> Sampler:
    """The sampler of a recipe.

    Raises:
        UserError: its engine cannot be had.
    """
    if isinstance(recipe.engine.sampler, Vllm):
        from outrider.sample.vllm import VllmSampler

        return VllmSampler(policy, recipe.sample, recipe.engine.sampler, ranks.from_main)
    from outrider.sample.local import LocalSampler

    return LocalSampler(policy, recipe.sample)


def open_learner(recipe: Recipe, policy: Policy, ranks: Ranks) -> Learner:
    """The learner of a recipe."""
    loss = PolicyLoss(recipe.objective, recipe.sample.max_tokens)
    dtype = placement(recipe.policy.dtype).dtype
    return Learner(policy.model, recipe.learn, loss, ranks.rank, ranks.size, ranks.sum_, dtype, policy.path)
