"""Whether a run fits the memory that there is, and the least that would have to change."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from outrider.config import Recipe
from outrider.model.options import LoraOptions
from outrider.train.decoder_shape import DecoderShape
from outrider.train.devices import Devices
from outrider.train.memory import Layout, memory, wave

GIB = 2**30
LIBRARIES = GIB // 2
"""Bytes that Python, PyTorch and its kernels take beside what is counted: of each process, or of CUDA on each GPU."""

_FEWEST_ROWS = 16  # fewer waste nearly all of a device


class Setup(NamedTuple):
    """A recipe and on how many processes it learns."""

    recipe: Recipe
    layout: Layout


class Remedy(NamedTuple):
    """One value of an option, and what it makes of a setup."""

    words: str
    of: Callable[[Setup], Setup]


def needed(setup: Setup, shape: DecoderShape, model_type: str, devices: Devices) -> int:
    """Bytes of a device; of the host's memory, where that is the device, by all processes together."""
    taken = memory(setup.recipe, shape, model_type, setup.layout)
    if not devices.host:
        return taken.peak + LIBRARIES
    return (taken.peak + sum(taken.host.values()) + LIBRARIES) * setup.layout.processes


def verdict(setup: Setup, shape: DecoderShape, model_type: str, devices: Devices) -> str:
    """One sentence: what is to spare, or what is missing and which options make it fit."""
    need = needed(setup, shape, model_type, devices)
    there = f"the {devices.size / GIB:.1f} GiB of {devices.name}"
    if need <= devices.size:
        return f"fits {there}, with {(devices.size - need) / GIB:.1f} GiB to spare"
    found = least(setup, shape, model_type, devices)
    lacks = f"does not fit: needs {need / GIB:.1f} GiB, more than {there}"
    if found is None:
        return f"{lacks}, and no option makes it fit: take a smaller model, shorter responses or more memory"
    words, less = found
    return f"{lacks}; {words} makes it {less / GIB:.1f} GiB"


def least(setup: Setup, shape: DecoderShape, model_type: str, devices: Devices) -> tuple[str, int] | None:
    """The smallest set of changes that makes it fit, in words, and the bytes that it then needs; None without any.

    Of sets of one size the first in order of what a change costs: first those that change no number, then the type of
    the products, last what is trained.
    """
    options = [found for kind in _CHANGES if (found := list(kind(setup, shape, devices)))]
    for count in range(1, len(options) + 1):
        for chosen in itertools.combinations(options, count):
            for changes in itertools.product(*chosen):
                changed = setup
                for change in changes:
                    changed = change.of(changed)
                if (less := needed(changed, shape, model_type, devices)) <= devices.size:
                    return " with ".join(change.words for change in changes), less
    return None


def _recomputed(setup: Setup, shape: DecoderShape, devices: Devices) -> Iterator[Remedy]:
    if not setup.recipe.learn.gradient_checkpointing:
        yield _option("learn.gradient_checkpointing=true", "learn", gradient_checkpointing=True)


def _smaller_passes(setup: Setup, shape: DecoderShape, devices: Devices) -> Iterator[Remedy]:
    """Halves, down to the longest row, which is a pass of its own in any case."""
    least = wave(setup.recipe, shape)[1]
    for tokens in _halves(setup.recipe.learn.micro_tokens, least):
        yield _option(f"learn.micro_tokens={tokens}", "learn", micro_tokens=tokens)


def _smaller_waves(setup: Setup, shape: DecoderShape, devices: Devices) -> Iterator[Remedy]:
    for rows in _halves(wave(setup.recipe, shape)[0], _FEWEST_ROWS):
        yield _option(f"sample.rows={rows}", "sample", rows=rows)


def _fewer_processes(setup: Setup, shape: DecoderShape, devices: Devices) -> Iterator[Remedy]:
    """On a host, whose memory all of them share."""
    if devices.host:
        for processes in _halves(setup.layout.processes, 1):
            yield Remedy(f"train.ranks={processes}", partial(_with_layout, layout=Layout(processes)))


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
