"""Builds the parts of a run from a recipe and a policy."""

from __future__ import annotations

from outrider.config import Recipe
from outrider.explore.explorer import Explorer
from outrider.explore.stream import ProblemStream
from outrider.learn.learner import EntropyLearner
from outrider.model.load import Policy, context_length
from outrider.objective.policy_loss import PolicyLoss
from outrider.processes.clock import Clock
from outrider.processes.ranks import Ranks
from outrider.runs.checkpoint import weights_hash
from outrider.train.ahead import Ahead
from outrider.train.collect import Collector
from outrider.train.engines import open_engines
from outrider.train.loop import Trainer
from outrider.train.turns import single_turns, with_turns
from outrider.train.weight_sync import WeightSync

_PROBES = 2  # number of prompts in a probe of the sampler's weights


def build(recipe: Recipe, policy: Policy, ranks: Ranks, clock: Clock) -> Trainer:
    """Build a trainer for a recipe and a prepared policy."""
    sampler, learner = open_engines(recipe, policy, ranks)
    prompts = [(problem, policy.encode(problem)) for problem in map(recipe.task.train, range(_PROBES))]
    entropies = None
    if recipe.reads_entropies and not sampler.gives_entropies:
        assert isinstance(learner, EntropyLearner), "the rules of engines refuse such a recipe"
        entropies = learner.entropies
    exact = recipe.policy.dtype == "float32"
    whole = with_turns(sampler, recipe.task, policy, recipe.sample)
    # with a lag, a thread explores during updates and must not use the updates' collectives
    exploring = ranks.beside() if recipe.train.lag else ranks
    explorer = Explorer(
        recipe.explore,
        ProblemStream(recipe.task.train),
        policy,
        recipe.seed,
        share=exploring.from_main,
        prompt_limit=context_length(policy.model) - recipe.sample.max_tokens,
    )
    collect = Collector(whole, recipe.task, recipe.reward, exploring, clock, entropies, policy.prompt_end)
    return Trainer(
        recipe=recipe,
        ranks=ranks,
        clock=clock,
        explorer=explorer,
        collect=collect,
        ahead=Ahead(recipe.train.lag > 0, explorer, collect, recipe.train.problems, clock),
        learner=learner,
        sync_weights=WeightSync(single_turns(whole), learner, ranks, prompts, exact, refuse=recipe.policy.check),
        encode=policy.encode,
        token_texts=policy.token_texts,
        all_rows=PolicyLoss(recipe.objective, recipe.sample.max_tokens).needs.all_rows,
    )


def reference_of(recipe: Recipe, policy: Policy) -> str:
    """Return a hash of a run's frozen weights: the reference model of the KL penalty, or the base weights of an
    adapter. If the policy's weights are in an external training service, return the model's name."""
    if policy.model.device.type == "meta":
        return recipe.model
    return weights_hash(policy.model, frozen=recipe.objective.kl.coef == 0)
