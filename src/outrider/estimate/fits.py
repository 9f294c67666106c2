"""Determines whether a run fits into the available memory, and which minimal changes would make the run fit."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from outrider.config import Recipe
from outrider.estimate.decoder_shape import DecoderShape
from outrider.estimate.memory import Layout, memory, wave
from outrider.learn.options import Fsdp2
from outrider.model.options import LoraOptions
from outrider.processes.devices import Devices
from outrider.sample.options import Vllm

GIB = 2**30
LIBRARIES = GIB // 2
"""Bytes per process that Python, PyTorch, its kernels and, on a GPU, CUDA need in addition to the counted parts."""

VLLM_BUFFERS = 3 * GIB
"""Assumed bytes that vLLM needs in addition to weights and KV cache, for its profile run, CUDA graphs and libraries.
vLLM is assumed to keep this memory during sleep. Neither assumption was measured."""

GAPS = 0.75
"""Share of a phase's memory that the C library keeps on a CPU after the memory is freed. The measured share over five
steps was 0.66 to 0.78. The share that a GPU's allocator keeps is unknown."""

_FSDP2 = "engine.learner=fsdp2 train.ranks={} beside vLLM servers"
_FEWEST_ROWS = 16  # with fewer rows, most of a device would be idle


class Setup(NamedTuple):
    """A recipe, and the layout of its training processes."""

    recipe: Recipe
    layout: Layout


class Remedy(NamedTuple):
    """A change of one option that reduces memory.

    Attributes:
        words: the option with its new value, as on the command line.
        of: function that applies the change to a setup.
    """

    words: str
    of: Callable[[Setup], Setup]


def needed(setup: Setup, shape: DecoderShape, model_type: str, devices: Devices, evaluating: bool = False) -> int:
    """Return the bytes that a run needs on each device or, on a CPU, that all processes need together."""
    taken = memory(setup.recipe, shape, model_type, setup.layout, evaluating)
    vllm = int(vllm_share(setup.recipe) * devices.size)
    if not devices.host:
        if _sleeps(setup.recipe):  # vLLM's weights and KV cache are freed during updates
            return LIBRARIES + max(taken.peak + min(VLLM_BUFFERS, vllm), sum(taken.held.values()) + vllm)
        return taken.peak + LIBRARIES + vllm
    gaps = int(GAPS * (taken.peak - sum(taken.held.values())))
    libraries = LIBRARIES * (2 if setup.recipe.samples_apart else 1)  # the sampling process also loads libraries
    return (max(taken.peak + gaps, taken.host_peak) + libraries) * setup.layout.processes + vllm


def vllm_share(recipe: Recipe) -> float:
    """Return the share of a GPU's memory that in-process vLLM reserves. On a CPU, this is the share for all processes
    together."""
    sampler = recipe.engine.sampler
    return sampler.share if isinstance(sampler, Vllm) and not sampler.servers else 0.0


def _sleeps(recipe: Recipe) -> bool:
    """Whether vLLM always sleeps (frees its memory) while the learner computes. This is False if the recipe needs token
    entropies, since the learner computes entropies while vLLM is awake."""
    sampler = recipe.engine.sampler
    return isinstance(sampler, Vllm) and sampler.sleep and not recipe.reads_entropies


def verdict(setup: Setup, shape: DecoderShape, model_type: str, devices: Devices) -> str:
    """Return a sentence about how much memory stays free, or about how much memory is missing and which options would
    help.
    """
    need = needed(setup, shape, model_type, devices)
    there = f"the {devices.size / GIB:.1f} GiB of {devices.name}"
    if need <= devices.size:
        return f"fits {there}, with {(devices.size - need) / GIB:.1f} GiB free"
    found = least(setup, shape, model_type, devices)
    lacks = f"does not fit: needs {need / GIB:.1f} GiB, more than {there}"
    if found is None:
        return f"{lacks}, and no option reduces it enough{_several(setup, shape, model_type, devices)}"
    words, less = found
    return f"{lacks}; {words} {less / GIB:.1f} GiB"


def _several(setup: Setup, shape: DecoderShape, model_type: str, devices: Devices) -> str:
    """Return text that says how many GPUs of this machine's kind the run needs. The text may include option changes
    that reduce memory without affecting results.
    """
    if not devices.host:
        twice, passes = ([*kind(setup, shape, devices)][-1:] for kind in (_recomputed, _smaller_passes))
        for number in (2**k for k in range(1, 11)):
            for changes in ([], twice, [*twice, *passes]):
                less = needed(_changed(_sharded(setup, number), changes), shape, model_type, devices)
                if less <= devices.size:
                    words = " and ".join([_FSDP2.format(number), *(change.words for change in changes)])
                    return f" here; {number} such GPUs are enough: {words}, {less / GIB:.1f} GiB per GPU"
    return ": use a smaller model, shorter responses or more memory"


def _changed(setup: Setup, changes: Sequence[Remedy]) -> Setup:
    for change in changes:
        setup = change.of(setup)
    return setup


def least(setup: Setup, shape: DecoderShape, model_type: str, devices: Devices) -> tuple[str, int] | None:
    """Return the smallest set of changes that makes the run fit, as text, and the bytes that the run then needs. Return
    None if no set of changes is enough.

    Among sets of equal size, sets of changes that do not affect results are tried first. Bfloat16 compute comes next,
    and LoRA instead of full training comes last.
    """
    options = [found for kind in _CHANGES if (found := list(kind(setup, shape, devices)))]
    for count in range(1, len(options) + 1):
        for chosen in itertools.combinations(options, count):
            for changes in itertools.product(*chosen):
                if (less := needed(_changed(setup, changes), shape, model_type, devices)) <= devices.size:
                    words = " and ".join(change.words for change in changes)
                    return f"{words} {'reduces' if count == 1 else 'reduce'} it to", less
    return None


def _recomputed(setup: Setup, shape: DecoderShape, devices: Devices) -> Iterator[Remedy]:
    if not setup.recipe.learn.recomputes:
        yield _option("learn.gradient_checkpointing=true", "learn", gradient_checkpointing=True)


def _smaller_passes(setup: Setup, shape: DecoderShape, devices: Devices) -> Iterator[Remedy]:
    """Yield smaller micro-batches (a half, a quarter, and so on) that still hold the longest possible prompt and
    response."""
    least = wave(setup.recipe, shape)[1]
    for tokens in _halves(setup.recipe.learn.tokens_of_a_pass, least):
        yield _option(f"learn.micro_tokens={tokens}", "learn", micro_tokens=tokens)


def _smaller_waves(setup: Setup, shape: DecoderShape, devices: Devices) -> Iterator[Remedy]:
    for rows in _halves(wave(setup.recipe, shape)[0], _FEWEST_ROWS):
        yield _option(f"sample.rows={rows}", "sample", rows=rows)


def _fewer_processes(setup: Setup, shape: DecoderShape, devices: Devices) -> Iterator[Remedy]:
    """Yield smaller numbers of processes on a CPU, where all processes share the host's memory."""
    if devices.host:
        for processes in _halves(setup.layout.processes, 1):
            yield Remedy(f"train.ranks={processes}", partial(_with_layout, layout=Layout(processes)))


def _shares(setup: Setup, shape: DecoderShape, devices: Devices) -> Iterator[Remedy]:
    """Yield sharding over two or more GPUs of this machine, starting with the smallest number of GPUs."""
    if not devices.host:
        for number in (2**k for k in range(1, 11) if 2**k <= devices.number):
            if number > (setup.layout.processes if setup.layout.sharded else 1):
                yield Remedy(_FSDP2.format(number), partial(_sharded, number=number))


def _sharded(setup: Setup, number: int) -> Setup:
    """Return the setup with the policy sharded over ``number`` GPUs and with vLLM as the sampler, since other samplers
    cannot use a sharded policy."""
    engine = setup.recipe.engine
    learner = engine.learner if isinstance(engine.learner, Fsdp2) else Fsdp2()
    sampler = engine.sampler if isinstance(engine.sampler, Vllm) else Vllm(servers=["http://127.0.0.1:8000"])
    changed = engine.model_copy(update={"learner": learner, "sampler": sampler})
    layout = Layout(number, True, learner.offload, gpu=True)
    return Setup(setup.recipe.model_copy(update={"engine": changed}), layout)


def _low_products(setup: Setup, shape: DecoderShape, devices: Devices) -> Iterator[Remedy]:
    if setup.recipe.policy.dtype != "bfloat16":
        yield _option("policy.dtype=bfloat16", "policy", dtype="bfloat16")


def _adapter(setup: Setup, shape: DecoderShape, devices: Devices) -> Iterator[Remedy]:
    if setup.recipe.policy.lora is None:
        rank = LoraOptions().rank
        yield _option(f"policy.lora={{rank: {rank}}}", "policy", lora=LoraOptions(rank=rank))


_CHANGES: Sequence[Callable[[Setup, DecoderShape, Devices], Iterator[Remedy]]] = (
    _recomputed,
    _smaller_passes,
    _smaller_waves,
    _fewer_processes,
    _shares,
    _low_products,
    _adapter,
)


def _option(words: str, section: str, **values: Any) -> Remedy:
    return Remedy(words, partial(_with_values, section=section, values=values))


def _with_values(setup: Setup, section: str, values: dict[str, Any]) -> Setup:
    changed = getattr(setup.recipe, section).model_copy(update=values)
    return setup._replace(recipe=setup.recipe.model_copy(update={section: changed}))


def _with_layout(setup: Setup, layout: Layout) -> Setup:
    return setup._replace(layout=layout)


def _halves(value: int, least: int) -> Iterator[int]:
    while value // 2 >= least:
        value //= 2
        yield value
