"""Loads the policy of a run, and creates its sampler and its learner (the engines). Only this module imports the
engines' implementations."""

from __future__ import annotations

from functools import partial

import torch

from outrider.config import Recipe
from outrider.errors import UserError
from outrider.learn.held import WholeModel
from outrider.learn.learner import Learner
from outrider.learn.local import Hold, LocalLearner
from outrider.learn.options import Fsdp2, Tinker
from outrider.model.compiled_head import with_compiled_head
from outrider.model.compute import ComputePath
from outrider.model.device import placement
from outrider.model.load import Policy, load_policy
from outrider.objective.policy_loss import PolicyLoss
from outrider.processes.cores import ranks_on_cpu, usable_cores
from outrider.processes.ranks import Ranks
from outrider.sample.options import SampleOptions, Vllm
from outrider.sample.ready import on_path, ready
from outrider.sample.sampler import Sampler
from outrider.sample.synced_weights import SyncedWeights
from outrider.train.turns import turn_options


def processes_of(recipe: Recipe) -> int:
    """Return the number of ranks that a run starts; 0 means one rank per core on a CPU, and one rank on other
    devices."""
    if isinstance(recipe.engine.learner, Tinker):
        return 1
    return recipe.train.ranks or (ranks_on_cpu(len(usable_cores()), True) if recipe.samples_apart else 0)


def open_policy(recipe: Recipe, ranks: Ranks) -> tuple[Policy, str]:
    """Load a recipe's policy and prepare it for the engines. Return the policy, and a message that says how its forward
    pass is computed.

    Raises:
        UserError: the policy cannot be loaded on a rank, or no implementation of the forward pass reproduces the
            model's log-probabilities.
    """
    return ranks.together(lambda: _open_policy(recipe, ranks))


def _open_policy(recipe: Recipe, ranks: Ranks) -> tuple[Policy, str]:
    learner = recipe.engine.learner
    if isinstance(learner, Tinker):
        # load only shapes and tokenizer, since the service has the weights
        policy = load_policy(recipe.model, recipe.policy, recipe.seed, torch.device("meta"))
        return policy, f"{type(policy.model).__name__}, computed by the Tinker service {learner.address()}"
    if not isinstance(learner, Fsdp2):
        policy = load_policy(recipe.model, recipe.policy, recipe.seed, placement().device)
        return ready(policy, recipe.sample.path)
    # the policy may not fit on one device, so it is loaded into host memory, where rank 0 checks it for all ranks
    loaded = load_policy(recipe.model, recipe.policy, recipe.seed, torch.device("cpu"))

    def checked() -> tuple[ComputePath, str]:
        policy, sentence = ready(loaded, recipe.sample.path, sampled=False)
        return policy.path, sentence

    path, sentence = ranks.from_main(checked)
    return on_path(loaded, path), sentence


def open_engines(recipe: Recipe, policy: Policy, ranks: Ranks) -> tuple[Sampler, Learner]:
    """Open the sampler and the learner of a recipe.

    Raises:
        UserError: the sampler or the learner is not available on a rank.
    """
    return ranks.together(lambda: _open_engines(recipe, policy, ranks))


def _open_engines(recipe: Recipe, policy: Policy, ranks: Ranks) -> tuple[Sampler, Learner]:
    if isinstance(recipe.engine.learner, Tinker):
        from outrider.learn.service_loss import named_loss
        from outrider.learn.tinker import TinkerLearner
        from outrider.model.tinker_service import TinkerService
        from outrider.sample.tinker import TinkerSampler

        assert recipe.policy.lora is not None
        if ranks.size > 1:
            raise UserError(
                f"a Tinker service needs a single process, but {ranks.size} were started: run without torchrun"
            )
        service = TinkerService(recipe.model, recipe.policy.lora, recipe.seed, recipe.engine.learner)
        loss = PolicyLoss(recipe.objective, recipe.sample.max_tokens)
        try:
            learner = TinkerLearner(service, recipe.learn, loss, named_loss(recipe.objective))
        except BaseException:
            service.close()  # no other code would close it
            raise
        return TinkerSampler(policy, recipe.sample, service), learner
    sampler = open_sampler(recipe, policy, ranks)
    try:
        return sampler, open_learner(recipe, policy, ranks)
    except BaseException:
        sampler.close()  # no other code would close it
        raise


def open_sampler(recipe: Recipe, policy: Policy, ranks: Ranks) -> Sampler:
    """Open the sampler of a recipe. For the errors, see :func:`open_engines`."""
    if isinstance(recipe.engine.sampler, Vllm):
        return _vllm(recipe.engine.sampler, recipe, policy, ranks)
    options = turn_options(recipe.sample, recipe.task)
    if recipe.samples_apart:
        return _sampling_process(recipe, policy, options, ranks)
    from outrider.sample.local import LocalSampler

    return LocalSampler(policy, options)


def _sampling_process(recipe: Recipe, policy: Policy, options: SampleOptions, ranks: Ranks) -> Sampler:
    if policy.model.device.type != "cpu":
        raise UserError(
            "train.lag=1 with the local sampler needs a CPU, since both would share the GPU; sample with "
            "a vLLM server on another GPU, as in engine.sampler={vllm: {servers: [http://127.0.0.1:8000]}}"
        )
    from outrider.sample.sampling_process import SamplerParts, SamplingProcess

    merged = recipe.policy.model_copy(update={"lora": None})
    parts = SamplerParts(recipe.model, merged, recipe.seed, policy.path, options, torch.get_num_threads())
    return SamplingProcess(parts, ranks.from_main)


def _vllm(engine: Vllm, recipe: Recipe, policy: Policy, ranks: Ranks) -> Sampler:
    options = turn_options(recipe.sample, recipe.task)
    if engine.servers:
        from outrider.sample.vllm import VllmSampler

        return VllmSampler(policy, options, engine, ranks.from_main, ranks.rank)
    from outrider.sample.vllm_engine import VllmEngine
    from outrider.sample.vllm_inside import VllmInside

    weights = SyncedWeights(engine.folder, ranks.from_main)
    return VllmInside(policy, options, VllmEngine(policy, weights, engine.share, ranks.rank, ranks.size, engine.sleep))


def open_learner(recipe: Recipe, policy: Policy, ranks: Ranks) -> Learner:
    """Open the learner of a recipe. For the errors, see :func:`open_engines`."""
    loss = PolicyLoss(recipe.objective, recipe.sample.max_tokens)
    here = placement(recipe.policy.dtype)
    hold: Hold = WholeModel
    if isinstance(recipe.engine.learner, Fsdp2):
        from outrider.learn.sharded import ShardedModel

        hold = partial(ShardedModel, offload=recipe.engine.learner.offload)
    path = policy.path
    if (
        recipe.learn.compile
    ):  # a sharded policy is still in host memory here, so its device does not say where it trains
        path = with_compiled_head(path, here.device, here.dtype)
    return LocalLearner(policy.model, recipe.learn, loss, ranks, here.dtype, path, hold)
