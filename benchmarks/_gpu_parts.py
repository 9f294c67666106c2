r"""Sampling and learning by themselves, for ``gpu.py``: ours, vLLM's, and written plainly with transformers.

Operations for learning :math:`R` rows, of :math:`L` tokens each, of which :math:`T` are the response:

.. math:: 6R\,(B L + H T) + 6 R\, N D L^2

:math:`B` parameters of all linear maps of :math:`N` layers, :math:`H` of the head, which sees no prompt; a product
takes 2 operations for each parameter and token, and its two in the backward pass twice as many. Attention has two
products of queries of :math:`D` numbers with the half of :math:`L^2` keys that is not in the future. What is computed
again in the backward pass is not counted, so the share of peak is a model's (MFU), not the hardware's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _gpu_measure import begin, device_peak, rate, timed
from _gpu_model import Size, new_model, recipe_of
from torch.autograd import DeviceType
from torch.nn import functional as F
from torch.profiler import profile, supported_activities

from outrider.estimate.decoder_shape import shape_of
from outrider.learn.local import LocalLearner
from outrider.learn.options import LearnOptions
from outrider.model.attention import use_plans
from outrider.model.compute import PACKED
from outrider.model.load import load_policy
from outrider.model.weights_file import write_weights
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import PolicyLoss
from outrider.processes.ranks import Ranks
from outrider.record import SampleRequest
from outrider.record.row import WeightedRow
from outrider.sample.ready import ready
from outrider.train.engines import open_sampler

MOST_OPERATIONS = 15


def sampling(size: Size, folder: Path, engine: str, path: str = "auto") -> dict[str, Any]:
    """By a sampler of ours, with an engine that a recipe can name."""
    recipe = recipe_of("grpo", size, folder, engine)
    policy = ready(load_policy(recipe.model, recipe.policy), path)[0]
    sampler = open_sampler(recipe, policy, Ranks())
    problems = [recipe.task.train(i) for i in range(size.prompts)]
    asked = [SampleRequest(p, n=size.samples, prompt_ids=policy.encode(p), group_id=p.id) for p in problems]
    try:
        return timed(
            lambda: sum(len(rollout.token_ids) for rollout in sampler.sample(asked)),
            before=lambda: sampler.take(0, partial(write_weights, policy.model)),  # it forgets the prompts
        )
    finally:
        sampler.close()


def plain_sampling(size: Size, folder: Path) -> dict[str, Any]:
    """``generate`` of transformers, in bfloat16."""
    model = new_model(size).to(torch.bfloat16)
    ids = torch.from_numpy(contexts(size).astype(np.int64)).to(model.device)

    def work() -> int:
        with torch.no_grad():
            made = model.generate(
                ids, attention_mask=torch.ones_like(ids), do_sample=True, top_k=0, max_new_tokens=size.response
            )
        return int((made[:, size.prompt :] != 0).sum())

    return timed(work)


def learning(
    size: Size, folder: Path, recompute: bool, deterministic: bool = False, compiled: bool = False
) -> dict[str, Any]:
    """One optimizer step of our learner."""
    learner = learner_of(size, recompute, deterministic, compiled)
    return with_share(size, learner.model, partial(learned, learner, size))


def learner_of(size: Size, recompute: bool, deterministic: bool, compiled: bool) -> LocalLearner:
    model = new_model(size)
    use_plans(model)
    loss = PolicyLoss(ObjectiveOptions(aggregate="token_mean", kl=0.0), size.response)
    options = LearnOptions(
        micro_tokens=size.micro_tokens, gradient_checkpointing=recompute, deterministic=deterministic
    )
    path = PACKED._replace(compiled=compiled and torch.cuda.is_available())  # on a CPU compiling takes half a minute
    return LocalLearner(model, options, loss, dtype=torch.bfloat16, path=path)


def learned(learner: LocalLearner, size: Size) -> int:
    """Train on all rows in one step, and return the number of response tokens."""
    old = np.full(size.response, -np.log(size.vocabulary), np.float32)
    rows = [
        WeightedRow(
            context_ids=context,
            token_ids=ids,
            old_logprobs_N=old,
            advantages_N=np.full(size.response, 1.0 if i % 2 else -1.0),
            trainable_N=np.ones(size.response, np.bool_),
            stream="main",
            group=str(i // size.samples),
        )
        for i, (context, ids) in enumerate(zip(contexts(size), responses(size), strict=True))
    ]
    updated = learner.update(rows).metrics
    if updated.get("updates") != 1.0:
        raise RuntimeError(f"nothing was learned: {updated}")
    return size.rows * size.response


def operations(size: Size, folder: Path, deterministic: bool) -> dict[str, Any]:
    """Seconds of the operations that take most of the device's time in one optimizer step, largest first."""
    learner = learner_of(size, recompute=False, deterministic=deterministic, compiled=False)
    learned(learner, size)  # warms up
    with profile(activities=list(supported_activities())) as profiled:
        start = begin()
        result = rate(learned(learner, size), start)
    # of kernels on a GPU; the operations that started them have the same seconds once more
    there = torch.cuda.is_available()
    seconds = {
        event.key: (event.self_device_time_total if there else event.self_cpu_time_total) / 1e6
        for event in profiled.key_averages()
        if (event.device_type is DeviceType.CUDA) == there and not event.is_user_annotation
    }
    largest = sorted(seconds, key=seconds.__getitem__, reverse=True)[:MOST_OPERATIONS]
    return {**result, "operations": {name: round(seconds[name], 4) for name in largest}}


def plain_learning(size: Size, folder: Path, recompute: bool) -> dict[str, Any]:
    """One optimizer step of a clipped token mean, as a page of transformers and PyTorch has it."""
    model = new_model(size)
    if recompute:
        model.train()
        model.gradient_checkpointing_enable({"use_reentrant": False})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    ids = torch.from_numpy(np.concatenate([contexts(size), responses(size)], 1).astype(np.int64)).to(model.device)
    advantages = torch.tensor([1.0 if i % 2 else -1.0 for i in range(size.rows)], device=model.device)
    old = -float(np.log(size.vocabulary))

    def work() -> int:
        optimizer.zero_grad()
        for part, advantage in zip(ids.split(size.micro_batch), advantages.split(size.micro_batch), strict=True):
            with torch.autocast(model.device.type, torch.bfloat16):
                logits = model(part, use_cache=False, logits_to_keep=size.response + 1).logits[:, :-1].float()
            logprobs = -F.cross_entropy(logits.flatten(0, 1), part[:, size.prompt :].flatten(), reduction="none")
            ratio = (logprobs - old).exp().view(len(part), -1)
            gain = torch.minimum(ratio * advantage[:, None], ratio.clamp(0.8, 1.2) * advantage[:, None])
            (-gain.sum() / (size.rows * size.response)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return size.rows * size.response

    return with_share(size, model, work)


def with_share(size: Size, model: Any, work: Callable[[], int]) -> dict[str, Any]:
    """What was measured, and the share of the device's peak that its useful operations are."""
    result, peak = timed(work), device_peak()
    share = useful_operations(size, model.config.to_dict()) / result["seconds"] / peak["peak_flops"]
    return {**result, "share_of_peak": round(share, 4), **peak}


def useful_operations(size: Size, config: dict[str, Any]) -> float:
    """Of one optimizer step over all rows; see the formula above."""
    shape = shape_of(config)
    assert shape is not None
    length = size.prompt + size.response
    products = shape.layers * shape.layer_products * length + shape.head * size.response
    attention = shape.layers * shape.queries * length**2
    return 6.0 * size.rows * (products + attention)


def contexts(size: Size) -> np.ndarray:
    """The prompt of every row."""
    ids = np.random.default_rng(0).integers(3, size.vocabulary, (size.prompts, size.prompt)).astype(np.int32)
    return ids.repeat(size.samples, 0)


def responses(size: Size) -> np.ndarray:
    return np.random.default_rng(1).integers(3, size.vocabulary, (size.rows, size.response)).astype(np.int32)
