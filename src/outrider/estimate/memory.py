r"""Memory of a run in bytes, by part, from its recipe and the model's sizes only.

Of one device (or one process on a CPU), for :math:`P` parameters of which :math:`T` are trained, and matrix products in
numbers of :math:`b` bytes (4, or 2 with ``policy.dtype: bfloat16``). Held all along, each divided by the number of
devices where the learner shards:

================  =====================================================================================================
weights           :math:`4P`; beside an adapter :math:`bP + 4T`
gradients         :math:`4T`
AdamW             :math:`8T`
reference model   :math:`4P` where ``objective.kl`` is not 0; beside an adapter :math:`4T`
sampler's copy    of the local sampler on the fused path (Llama, Mistral, Qwen2, Qwen3), never divided: in bfloat16 all
                  weights and the head once more; in float32 what a norm is multiplied into (queries, keys, values,
                  gate, up, head), beside an adapter also what it changes; none for an adapter in bfloat16
sampler's         of the sampling process with ``train.lag=1``: :math:`4P`; sampling and learning then add up
weights
================  =====================================================================================================

While it samples, with the local sampler, and while it learns; what one of them frees the other takes:

================  =====================================================================================================
KV cache          :math:`2 b\, L D_{kv}` for a token: :math:`R` rows of a wave, of ``max_tokens`` and a prompt of 512,
                  beside the prompts that they continue; one layer twice, while the wave grows
kept for turns    where rollouts have turns: as many rows again, which wait for their environments
draws             :math:`20 R V`: logits, probabilities and their sums, some in float64
activations       per token of a micro-batch and layer :math:`24 H + 16 (I + D_q + D_{kv})`, in bfloat16
                  :math:`26 H + 8 (I + D_q + D_{kv})`, beside an adapter :math:`8 H` less; where queries and keys have
                  norms, 8 or 6, beside an adapter 4, more for each number of them; recomputed: :math:`4 H`, and one
                  layer of the former
products' copies  in bfloat16 and without an adapter :math:`2` for each number in the linear maps, which the backward
                  pass needs; recomputed: of one layer
head              chunks of logits (:mod:`outrider.model.head`); where it is trained, its gradient and a copy in
                  numbers of :math:`b` bytes
gathered layers   of a sharded learner: what is outside of the layers, in float32; one layer and the next one, as it is
                  sent and as it is used, in :math:`b` bytes, which are no copies then
summed gradients  of several processes that hold everything: :math:`4T`, after the backward pass
================  =====================================================================================================

:math:`L` layers of width :math:`H`, inner width :math:`I`, queries of :math:`D_q` and keys of :math:`D_{kv}` numbers, a
vocabulary of :math:`V`. Not counted: the allocator's gaps, verifiers, and what writing a checkpoint takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from outrider.config import Recipe
from outrider.config.train import EVALUATED_TOGETHER
from outrider.estimate.decoder_shape import DecoderShape
from outrider.explore import Bounds, Stage
from outrider.explore.bounds import bounds_of
from outrider.sample.options import FUSED_FAMILIES, LocalSampling
from outrider.tasks.turn_task import TurnTask

PROMPT = 512
"""Tokens of a prompt where none has been seen: a long problem with a template."""

CHUNK, GPU_CHUNKS = 8 * 2**20, 8
"""Most logits that the head holds at once, as in :mod:`outrider.model.head`, which imports torch."""


class Layout(NamedTuple):
    """How many processes learn together, and whether each holds a share of the model or all of it.

    Attributes:
        offload: shares lie in host memory, and come to the device when they are computed with.
        gpu: each has one; else all are on the CPU.
    """

    processes: int = 1
    sharded: bool = False
    offload: bool = False
    gpu: bool = False

    def share(self, size: int) -> int:
        return -(-size // self.processes) if self.sharded else size


ALONE = Layout()


class Memory(NamedTuple):
    """Bytes by part.

    Attributes:
        held, phases: on the device: all along, and in each phase beside it.
        host: shares that lie in the host's memory instead.
        loading: in the host's memory before a model is shared out, since every process reads the whole.
        checking: beside that, on one process alone, which finds out how it is computed: in bfloat16 its copy of what
            products take.
    """

    held: dict[str, int]
    phases: dict[str, dict[str, int]]
    host: dict[str, int]
    loading: int = 0
    checking: int = 0

    @property
    def host_peak(self) -> int:
        """Of the host's memory beside a device."""
        return max(self.loading, sum(self.host.values()))

    @property
    def peak(self) -> int:
        """Of the device, in the phase that takes most."""
        return sum(self.held.values()) + max(sum(parts.values()) for parts in self.phases.values())


def most_rollouts(stages: Sequence[Stage], problems: int) -> tuple[int, list[str]]:
    """The most rollouts of a step up to the first stage without a bound, and the names of this and later stages."""
    bounds, most = Bounds(), 0
    for i, stage in enumerate(stages):
        bounds = bounds_of(stage, bounds, problems)
        if bounds.most is None:
            return most, [type(after).__name__.lower() for after in stages[i:]]
        most = bounds.most
    return most, []


def memory(
    recipe: Recipe, shape: DecoderShape, model_type: str, layout: Layout = ALONE, evaluating: bool = False
) -> Memory:
    """Bytes by part, as the module says; of the steps alone, unless ``evaluating``."""
    whole, trained, low = shape.parameters, trained_parameters(recipe, shape), number_bytes(recipe)
    lora = recipe.policy.lora is not None
    shared = {
        "weights": (low * whole + 4 * trained) if lora else 4 * whole,
        "gradients": 4 * trained,
        "AdamW": 8 * trained,
        "reference model": 4 * trained if recipe.objective.kl.coef else 0,
    }
    loading = shared["weights"] if layout.sharded else 0
    shared = {part: layout.share(size) for part, size in shared.items()}
    local = isinstance(recipe.engine.sampler, LocalSampling)
    copied = {"sampler's copy": _sampler_copy(recipe, shape, model_type)} if local else {}
    phases = {"samples": _sampling(recipe, shape, evaluating)} if local else {}
    phases["learns"] = _learning(recipe, shape, layout)
    if recipe.samples_apart:  # both at the same time, and the sampling process has all weights
        copied["sampler's weights"] = 4 * whole
        phases = {"samples and learns": phases["samples"] | phases["learns"]}
    if layout.processes > 1 and not layout.sharded:
        phases["adds gradients"] = {"summed gradients": 4 * trained}
    away = shared if layout.offload else {}
    checking = low * (shape.layers * shape.layer_products + shape.head) if loading and low == 2 else 0
    return Memory(copied if layout.offload else shared | copied, phases, away, loading, checking)


def trained_parameters(recipe: Recipe, shape: DecoderShape) -> int:
    """All, or those of an adapter."""
    lora = recipe.policy.lora
    if lora is None:
        return shape.parameters
    return lora.rank * shape.layers * sum(a + b for a, b in shape.adapted(lora.targets))


def number_bytes(recipe: Recipe) -> int:
    """Of a number in matrix products."""
    return 2 if recipe.policy.dtype == "bfloat16" else 4


def wave(recipe: Recipe, shape: DecoderShape, evaluating: bool = False) -> tuple[int, int]:
    """Rows that are decoded together at most in a step, or in evaluations as well, and tokens of the longest."""
    rollouts, unbounded = most_rollouts(recipe.explore, recipe.train.problems)
    at_once = max(rollouts, evaluated_at_once(recipe)) if evaluating else rollouts
    rows = recipe.sample.most_rows if unbounded else min(recipe.sample.most_rows, at_once)
    return rows, min(recipe.sample.max_tokens + PROMPT, shape.context)


def evaluated_at_once(recipe: Recipe) -> int:
    """The most responses that an evaluation asks for in one call: samples of a hundred problems, or greedy ones."""
    train, evaluate = recipe.train, recipe.evaluate
    if not (evaluate.before or evaluate.after or train.evaluate_every or train.evaluate_at):
        return 0
    return max(min(evaluate.problems, EVALUATED_TOGETHER) * evaluate.n, evaluate.problems * evaluate.greedy)


def kv_cache(recipe: Recipe, shape: DecoderShape, tokens: int) -> int:
    """Of so many tokens."""
    return 2 * number_bytes(recipe) * shape.layers * shape.keys * tokens


def activations(shape: DecoderShape, low: int, adapter: bool = False) -> int:
    """Bytes per token and layer that the backward pass needs, as ``tests/estimate/test_memory.py`` measures them."""
    stream = (24 if low == 4 else 26) - (8 if adapter else 0)
    normed = (4 if adapter else 4 + low) if shape.head_norms else 0
    heads = shape.queries + shape.keys
    return stream * shape.width + 4 * low * (shape.inner + heads) + normed * heads


def _sampler_copy(recipe: Recipe, shape: DecoderShape, model_type: str) -> int:
    low, lora = number_bytes(recipe), recipe.policy.lora
    if model_type not in FUSED_FAMILIES or recipe.sample.path not in ("auto", "fused") or (lora and low == 2):
        return 0
    if low == 2:
        return 2 * (shape.layers * shape.layer_parameters + 2 * shape.head)
    changed = ["q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"]
    if lora is not None:
        changed += shape.linear if lora.targets == "all-linear" else lora.targets
    products = sum(a * b for name, (a, b) in shape.linear.items() if name in changed)
    return 4 * (shape.layers * products + shape.head)


def _sampling(recipe: Recipe, shape: DecoderShape, evaluating: bool) -> dict[str, int]:
    rows, longest = wave(recipe, shape, evaluating)
    rollouts, _ = most_rollouts(recipe.explore, recipe.train.problems)
    contexts = min(rows, -(-rows * recipe.train.problems // max(rollouts, 1))) * min(PROMPT, longest)
    turns = isinstance(recipe.task, TurnTask)
    kept = {"kept for turns": kv_cache(recipe, shape, rows * longest)} if turns else {}
    return kept | {
        # and one layer's more, while the wave grows
        "KV cache": kv_cache(recipe, shape, rows * longest + contexts)
        + kv_cache(recipe, shape, rows * longest) // shape.layers,
        "draws": 20 * rows * shape.vocabulary,
    }


def _learning(recipe: Recipe, shape: DecoderShape, layout: Layout) -> dict[str, int]:
    """Of the moment that takes most: the head's backward pass, with all layers behind it, or that of a layer."""
    low, adapter = number_bytes(recipe), recipe.policy.lora is not None
    longest = wave(recipe, shape)[1]
    tokens = max(recipe.learn.tokens_of_a_pass, longest)
    own = tokens * min(recipe.sample.max_tokens, longest) // longest  # the others need no logits
    layer = activations(shape, low, adapter) * tokens
    shares = layout.sharded and layout.processes > 1
    # shares are gathered in the type of products, so that nothing is copied
    copies = low * shape.layer_products if low == 2 and not adapter and not shares else 0
    gathered = {"gathered layers": _gathered(shape, low, adapter) if shares else 0}
    head = _head(shape, low, adapter, own, CHUNK * (GPU_CHUNKS if layout.gpu else 1))
    if not recipe.learn.recomputes:
        all_layers = {"activations": shape.layers * layer, "products' copies": shape.layers * copies}
        return all_layers | {"head": head} | gathered
    kept = shape.layers * 4 * shape.width * tokens
    at_head = {"activations": kept, "head": head} | gathered
    # a tied head's gradient waits there for the embedding's, a gathered one for what is gathered with it
    waiting = 4 * shape.head if (shape.tied or shares) and not adapter else 0
    at_layer = {"activations": kept + layer, "products' copies": copies, "head": waiting} | gathered
    return max(at_head, at_layer, key=lambda parts: sum(parts.values()))


def _head(shape: DecoderShape, low: int, adapter: bool, tokens: int, most: int) -> int:
    chunk = 4 * min(most, tokens * shape.vocabulary)
    if adapter:
        return 4 * chunk
    product = 4 * min(most, shape.head)
    copied = low if low == 2 else 0
    return max(4 * chunk, 3 * chunk + copied * chunk // 4 + product + copied * product // 4 + (4 + copied) * shape.head)


def _gathered(shape: DecoderShape, low: int, adapter: bool) -> int:
    return (low if adapter else 4) * shape.outside + 3 * low * shape.layer_parameters
