"""Chooses values for options that are ``auto``. Of all values that fit into memory according to the estimate, the
fastest are chosen.

Sampling and learning do not need their memory at the same time, so the values for each phase are chosen separately:

- ``sample.rows``: the largest of 1,024, 512, 256, … that fits.
- ``learn.micro_tokens`` and ``learn.gradient_checkpointing``: the largest micro-batch that fits without recomputation
  of activations: 16,384, 8,192, 4,096 or 2,048 tokens. On a CPU, the largest size is 4,096. If none of these sizes
  fits, activations are recomputed, which takes a third more time. If none of these sizes fits with recomputation
  either, micro-batches become smaller.
- ``engine.sampler.memory``, if vLLM runs inside the training processes: enough for vLLM's weights, its buffers and the
  KV cache of a step, but no more than the learner leaves free.
- ``train.ranks`` (number of processes), only on a CPU: fewer than by default if the run does not fit otherwise. A
  number that the recipe sets does not change.

A tenth of the memory stays free for parts that the estimate omits. If no values fit, this tenth is used as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from outrider.config import Recipe
from outrider.estimate.decoder_shape import DecoderShape, shape_of
from outrider.estimate.estimate import layout_of
from outrider.estimate.fits import GIB, VLLM_BUFFERS, Setup, needed
from outrider.estimate.memory import kv_cache, most_rollouts, number_bytes, wave
from outrider.learn.options import MICRO_TOKENS, Tinker
from outrider.options import AUTO
from outrider.processes.devices import Devices, find_devices
from outrider.processes.other_launcher import started_by_another
from outrider.sample.options import ROWS, SHARE, Vllm

_MOST_ROWS = 1024
_CPU_TOKENS = 4096
_FEWEST_TOKENS = 2048
"""Minimum tokens in a micro-batch without recomputation. Even smaller micro-batches are slower than recomputation."""
_FREE = 0.1

Dotted = dict[str, Any]
"""Type of a mapping from dotted option keys to values."""


class AutoValues(NamedTuple):
    """The values chosen for a recipe's ``auto`` options.

    Attributes:
        values: mapping from dotted option keys to the chosen values, in the format that :func:`with_values` expects.
        sentence: one sentence for the user about the chosen values; None for default values and for a resumed run's
            values.
    """

    values: Dotted
    sentence: str | None


def auto_keys(recipe: Recipe) -> list[str]:
    """Return the keys of the recipe's options whose value is ``auto``."""
    found: Dotted = {
        "sample.rows": recipe.sample.rows,
        "learn.micro_tokens": recipe.learn.micro_tokens,
        "learn.gradient_checkpointing": recipe.learn.gradient_checkpointing,
    }
    if isinstance(recipe.engine.sampler, Vllm) and not recipe.engine.sampler.servers:
        found["engine.sampler.memory"] = recipe.engine.sampler.memory
    return [key for key, value in found.items() if value == AUTO]


def choose(
    recipe: Recipe,
    config: Mapping[str, Any] | None,
    recorded: Recipe | None = None,
    devices: Devices | None = None,
) -> AutoValues:
    """Choose a value for every option of the recipe whose value is ``auto``.

    Args:
        config: content of the model's config.json; None if the file is not on this machine.
        recorded: for a resumed run, the recipe with which the run was started. The values of this recipe are kept.
        devices: the devices whose memory the run must fit; None: the devices of this machine.

    If no values fit into memory, the values that need the least memory are chosen. If the model's dimensions or the
    memory of the devices is unknown, the values are ``sample.rows`` 256, ``learn.micro_tokens`` 16,384,
    ``engine.sampler.memory`` 0.5, and no recomputation of activations.
    """
    keys = auto_keys(recipe)
    if not keys:
        return AutoValues({}, None)
    if recorded is not None:
        kept = {key: value for key in keys if (value := _value(recorded, key)) not in (None, AUTO)}
        if not recipe.train.ranks and recorded.train.ranks:
            kept["train.ranks"] = recorded.train.ranks
        return AutoValues(_defaults(keys) | kept, None)
    devices = devices or find_devices()
    shape = None if config is None or isinstance(recipe.engine.learner, Tinker) else shape_of(config)
    if config is None or shape is None or devices is None:
        return AutoValues(_defaults(keys), None)
    model_type = str(config.get("model_type"))

    def need(values: Dotted) -> int:
        changed = with_values(recipe, values)
        return needed(Setup(changed, layout_of(changed, devices)), shape, model_type, devices, evaluating=True)

    values = _fastest(_Room(recipe, keys, shape, devices, need))
    words = ", ".join(f"{key}={str(value).lower()}" for key, value in values.items())
    there = f"{devices.size / GIB:.1f} GiB of {devices.name}"
    return AutoValues(values, f"auto: {words} (about {need(values) / GIB:.1f} of the {there})")


def with_values(recipe: Recipe, values: Mapping[str, Any]) -> Recipe:
    """Return a copy of the recipe in which the options with the given dotted keys have new values. The values must be
    valid.
    """
    for key, value in values.items():
        recipe = _with(recipe, key.split("."), value)
    return recipe


def _with(options: Any, names: list[str], value: Any) -> Any:
    first, *rest = names
    return options.model_copy(update={first: _with(getattr(options, first), rest, value) if rest else value})


def _value(recipe: Recipe, key: str) -> Any:
    found: Any = recipe
    for name in key.split("."):
        found = getattr(found, name, None)
    return found


def _defaults(keys: list[str]) -> Dotted:
    """Return the option values that are used if the model's dimensions or the memory of the devices is unknown."""
    every = {
        "sample.rows": ROWS,
        "learn.micro_tokens": MICRO_TOKENS,
        "learn.gradient_checkpointing": False,
        "engine.sampler.memory": SHARE,
    }
    return {key: every[key] for key in keys}


class _Room(NamedTuple):
    """The inputs for choosing values. The function ``need`` maps option values to the bytes that a run with these
    values needs."""

    recipe: Recipe
    keys: list[str]
    shape: DecoderShape
    devices: Devices
    need: Callable[[Dotted], int]


def _fastest(room: _Room) -> Dotted:
    """Return the option values of the fastest run that fits into memory. If possible, a tenth of the memory stays free,
    and the number of processes does not change."""
    smallest: list[Dotted] = []
    for free in (_FREE, 0.0):
        for ranks in _ranks(room):
            found, fits = _fastest_in(room, ranks, int((1 - free) * room.devices.size))
            if fits:
                return found
            smallest.append(found)
    return smallest[0]


def _fastest_in(room: _Room, ranks: Dotted, size: int) -> tuple[Dotted, bool]:
    """Return the option values of the fastest run that needs at most ``size`` bytes, and True. If every run needs more,
    return the option values of the run that needs the least memory, and False.
    """

    def fits(values: Dotted) -> bool:
        return room.need(values) <= size

    learning, rows = list(_learning(room)), list(_rows(room))
    fixed = ranks | _vllm_share(room, 0.25)
    # choose rows with the smallest values for learning, so that they depend only on the memory for sampling; choose
    # micro-batches afterwards
    waves = next((w for w in rows if fits(fixed | w | learning[-1])), rows[-1])
    passes = next((p for p in learning if fits(fixed | waves | p)), learning[-1])
    values = waves | passes | fixed
    if not fits(values):
        return values, False
    larger = (values | _vllm_share(room, part) for part in (1.0, 0.75, 0.5))
    return next(filter(fits, larger), values), True


def _ranks(room: _Room) -> Iterator[Dotted]:
    """Yield an empty mapping (no change) and then, on a CPU, smaller numbers of processes. If the recipe or a launcher
    such as torchrun sets the number of processes, yield only the empty mapping.
    """
    yield {}
    open_ = room.devices.host and not room.recipe.train.ranks and started_by_another(0) is None
    processes = layout_of(room.recipe, room.devices).processes if open_ else 1
    while (processes := processes // 2) >= 1:
        yield {"train.ranks": processes}


def _rows(room: _Room) -> Iterator[Dotted]:
    if "sample.rows" not in room.keys:
        yield {}
        return
    rows = _MOST_ROWS
    while rows >= 1:
        yield {"sample.rows": rows}
        rows //= 2


def _learning(room: _Room) -> Iterator[Dotted]:
    """Yield values for the learning options, fastest first. A micro-batch is never smaller than the longest row."""
    most = _CPU_TOKENS if room.devices.host else MICRO_TOKENS
    longest = min(wave(room.recipe, room.shape)[1], most)
    sizes = [size for i in range(15) if (size := most >> i) > longest] + [longest]
    sized = "learn.micro_tokens" in room.keys
    every: list[Dotted] = [{"learn.micro_tokens": n} for n in sizes] if sized else [{}]
    if "learn.gradient_checkpointing" not in room.keys:
        yield from every
        return
    large = [{"learn.micro_tokens": n} for n in sizes if n >= min(_FEWEST_TOKENS, sizes[0])] if sized else every
    for recomputed, passes in ((False, large), (True, every)):
        yield from ({"learn.gradient_checkpointing": recomputed} | size for size in passes)


def _vllm_share(room: _Room, part: float) -> Dotted:
    """Return the share of a device's memory that vLLM needs if its KV cache holds the fraction ``part`` of a step's
    rollouts. On a CPU, the share covers the vLLM engines of all processes.
    """
    if "engine.sampler.memory" not in room.keys:
        return {}
    recipe, shape = room.recipe, room.shape
    engines = layout_of(recipe, room.devices).processes
    rollouts = -(-most_rollouts(recipe.explore, recipe.train.problems)[0] // engines)
    stored = kv_cache(recipe, shape, rollouts * wave(recipe, shape)[1])
    need = number_bytes(recipe) * shape.parameters + part * stored + VLLM_BUFFERS
    need *= engines if room.devices.host else 1
    return {"engine.sampler.memory": min(0.9, max(0.05, round(need / room.devices.size + 0.005, 2)))}
