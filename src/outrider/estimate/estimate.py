"""Estimates a run's generated tokens and memory from the recipe and the model's config.json, and formats them as
sentences.

A step generates at most ``sample.max_tokens`` tokens for each rollout that the recipe's ``explore`` stages may request.
The memory that a process of the run needs (:mod:`outrider.estimate.memory`) is compared with this machine's memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from outrider.config import Recipe
from outrider.estimate.decoder_shape import DecoderShape, shape_of
from outrider.estimate.fits import GIB, LIBRARIES, Setup, needed, verdict
from outrider.estimate.memory import Layout, Memory, kv_cache, memory, most_rollouts, number_bytes, wave
from outrider.estimate.service_cost import service_lines
from outrider.learn.options import Fsdp2, Tinker
from outrider.model.places import model_folder
from outrider.processes.cores import ranks_on_cpu, usable_cores
from outrider.processes.devices import Devices, find_devices, host_share
from outrider.processes.other_launcher import started_by_another
from outrider.sample.options import Vllm

_ROLLOUT, _TOKEN = 2_000, 16
"""Bytes per rollout (first number) and per token (second number), for the token's id, log-probability, entropy and
text."""


def estimate(recipe: Recipe, config: Mapping[str, Any] | None) -> list[str]:
    """Return the estimates for a run as sentences."""
    rollouts, unbounded = most_rollouts(recipe.explore, recipe.train.problems)
    tokens = rollouts * recipe.sample.max_tokens
    adds = "adds" if len(unbounded) == 1 else "and the later stages add"
    more = f", and what {unbounded[0]} {adds}" if unbounded else ""
    lines = [
        f"at most {rollouts:,} rollouts and {tokens:,} generated tokens a step{more} "
        f"({recipe.train.problems} problems, {recipe.sample.max_tokens} tokens a response)"
    ]
    if isinstance(recipe.engine.learner, Tinker):
        return [*lines, *service_lines(recipe, _tokens_of(recipe.model))]
    shape = None if config is None else shape_of(config)
    if config is None or shape is None:
        why = "has no config.json on this machine" if config is None else "is not a dense decoder of a known kind"
        return [*lines, f"memory: {recipe.model} {why}, so there is no estimate"]
    return [*lines, *_memory_lines(recipe, shape, str(config.get("model_type")), find_devices())]


def lacking(recipe: Recipe, config: Mapping[str, Any] | None) -> str | None:
    """Return why a run does not fit into memory, and which options would help. Return None if the run fits, or if it is
    unknown whether the run fits.

    Unlike ``estimate``, this function also counts the host memory for a step's responses, which rank 0 keeps until the
    update.
    """
    rollouts, _ = most_rollouts(recipe.explore, recipe.train.problems)
    responses, there = rollouts * (_ROLLOUT + _TOKEN * recipe.sample.max_tokens), host_share()
    if there is not None and responses > there:
        return (
            f"a step has up to {rollouts:,} rollouts, whose responses alone take {responses / GIB:,.0f} GiB of host "
            f"memory, and this run has {there / GIB:.1f} GiB; reduce explore or train.problems"
        )
    shape = None if config is None or isinstance(recipe.engine.learner, Tinker) else shape_of(config)
    devices = find_devices()
    if config is None or shape is None or devices is None:
        return None
    setup, model_type = Setup(recipe, layout_of(recipe, devices)), str(config.get("model_type"))
    if needed(setup, shape, model_type, devices) <= devices.size:
        return None
    return f"the model {recipe.model} {verdict(setup, shape, model_type, devices)}"


def _tokens_of(model: str) -> Callable[[str], int] | None:
    """Return a function that counts a text's tokens with the model's tokenizer. Return None if the tokenizer is not on
    this machine."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(model_folder(model), local_files_only=True)
    except (OSError, ValueError, KeyError):
        return None
    return lambda text: len(tokenizer(text)["input_ids"])


def _memory_lines(recipe: Recipe, shape: DecoderShape, model_type: str, devices: Devices | None) -> list[str]:
    setup = Setup(recipe, layout_of(recipe, devices))
    taken, processes = memory(recipe, shape, model_type, setup.layout), setup.layout.processes
    on_gpus = devices is not None and not devices.host
    lines = [
        f"memory of each {'GPU' if on_gpus else 'process'}, about {(taken.peak + LIBRARIES) / GIB:.1f} GiB at its peak "
        f"for {shape.parameters:,} parameters: {_sizes({'libraries': LIBRARIES} | taken.held)}",
        *(f"  while it {phase}: {_sizes(parts)}" for phase, parts in taken.phases.items()),
        *_unknown_targets(recipe, shape),
    ]
    if isinstance(recipe.engine.sampler, Vllm):
        lines.append(_vllm(recipe, recipe.engine.sampler, shape, processes))
    if on_gpus and taken.host_peak:
        lines += _host_lines(taken, processes)
    if devices is None:
        return [*lines, "the memory of this system is unknown"]
    if devices.host and processes > 1:
        together = needed(setup, shape, model_type, devices) / GIB
        lines.append(f"{processes} processes share the host's memory: {together:.1f} GiB together")
    if on_gpus and processes > devices.number and "WORLD_SIZE" not in os.environ:
        lines.append(f"{processes} processes need one GPU each, and this machine has {devices.number}")
    return [*lines, verdict(setup, shape, model_type, devices)]


def _host_lines(taken: Memory, processes: int) -> list[str]:
    """Return a line about the total host memory that the processes on this machine need in addition to GPU memory."""
    here = int(os.environ.get("LOCAL_WORLD_SIZE", processes))
    there, held = host_share(), here * sum(taken.host.values())
    need = max(here * taken.loading + taken.checking, held) + here * LIBRARIES
    parts = f"each process reads the whole model, {taken.loading / GIB:.1f} GiB, before sharding"
    kept = f", and keeps {_sizes(taken.host)}" if taken.host else ""
    lacks = there is not None and need > there
    of = "" if there is None else f" of {there / GIB:.1f}"
    return [f"the host's memory: {parts}{kept}; {here} of them need {need / GIB:.1f}{of} GiB{', too much' * lacks}"]


def _unknown_targets(recipe: Recipe, shape: DecoderShape) -> list[str]:
    lora = recipe.policy.lora
    if lora is None or lora.targets == "all-linear" or all(name in shape.linear for name in lora.targets):
        return []
    return [f"policy.lora.targets: the estimate counts {', '.join(shape.linear)}, and no other names"]


def layout_of(recipe: Recipe, devices: Devices | None) -> Layout:
    """Return how many processes ``launch`` or torchrun starts for a run, whether they shard the model, and whether they
    use GPUs."""
    on_gpus = devices is not None and not devices.host
    asked = started_by_another(recipe.train.ranks) or recipe.train.ranks
    processes = asked or (1 if on_gpus else ranks_on_cpu(len(usable_cores()), recipe.samples_apart))
    learner = recipe.engine.learner
    sharded = isinstance(learner, Fsdp2)
    return Layout(processes, sharded, isinstance(learner, Fsdp2) and learner.offload, on_gpus)


def _vllm(recipe: Recipe, engine: Vllm, shape: DecoderShape, processes: int) -> str:
    """Return a sentence about the memory that vLLM needs, which helps the user to set vLLM's share of the GPU."""
    rollouts, _ = most_rollouts(recipe.explore, recipe.train.problems)
    engines = len(engine.servers) or processes
    asked = -(-rollouts // engines)
    rows = min(engine.in_flight * processes, asked) if engine.servers else asked
    weights = number_bytes(recipe) * shape.parameters / GIB
    stored = kv_cache(recipe, shape, rows * wave(recipe, shape)[1]) / GIB
    inside = f"vLLM takes {engine.share:g} of that memory in addition, and needs"
    each = "each vLLM server, in addition" if engine.servers else inside
    return (
        f"{each}: weights {weights:.2f} in {recipe.policy.dtype}, and {stored:.2f} for the KV cache of {rows:,} "
        "concurrent rollouts"
    )


def _sizes(parts: Mapping[str, int]) -> str:
    return ", ".join(f"{part} {size / GIB:.2f}" for part, size in parts.items() if size)
