r"""Estimates how many bytes each part of a run needs, from the run's recipe and the model's dimensions.

All numbers are per device (per process on a CPU). :math:`P` is the number of parameters, :math:`T` is the number of
trained parameters, and :math:`b` is the bytes per number in the compute dtype (4, or 2 with ``policy.dtype:
bfloat16``). The following parts are in memory throughout training. If the learner is sharded, each part is divided by
the number of devices, except as noted:

================  =====================================================================================================
weights           :math:`4P`; with an adapter :math:`bP + 4T`
gradients         :math:`4T`
AdamW             :math:`8T`
reference model   :math:`4P` if ``objective.kl`` is not 0; with an adapter :math:`4T`
sampler's copy    only for the local sampler on the fused path (Llama, Mistral, Qwen2, Qwen3), never divided. In
                  bfloat16: all weights, and the head a second time. In float32: the weights that a norm is multiplied
                  into (queries, keys, values, gate, up, head) and those that an adapter changes. With an adapter in
                  bfloat16 there is no copy
sampler's         only with ``train.lag=1``, :math:`4P`, for the separate sampling process. Sampling and learning then
weights           need their memory at the same time
================  =====================================================================================================

Each of the following parts is needed only in one phase, while the local sampler samples or while the learner trains.
Each phase reuses the memory that the other phase has freed:

================  =====================================================================================================
KV cache          :math:`2 b\, L D_{kv}` per token, for :math:`R` rows decoded together, each with ``max_tokens`` and a
                  prompt of 512 tokens, and for the prompts that rows share; one layer twice while the cache grows
kept for turns    for multi-turn tasks: the KV cache of another :math:`R` rows, which wait for their environments
draws             :math:`20 R V`: logits, probabilities and their cumulative sums, some in float64
activations       per layer and token of a micro-batch: :math:`24 H + 16 (I + D_q + D_{kv})`, or in bfloat16
                  :math:`26 H + 8 (I + D_q + D_{kv})`; with an adapter, :math:`8 H` less. If queries and keys have
                  norms, :math:`8 (D_q + D_{kv})` more (factor 6 in bfloat16, 4 with an adapter). If activations are
                  recomputed: :math:`4 H` per layer, and all of the above for only one layer
products' copies  in bfloat16 without an adapter: :math:`2` bytes per parameter of the linear maps, for the backward
                  pass; if activations are recomputed, only for one layer
head              chunks of logits (:mod:`outrider.model.head`); if the head is trained, also its gradient, and a copy
                  of :math:`b` bytes per parameter
gathered layers   only with a sharded learner: the parameters outside the layers, in float32; and two successive layers,
                  before and after gathering, in :math:`b` bytes. They replace the products' copies
summed gradients  if each of several processes has the whole model: :math:`4T`, after the backward pass
================  =====================================================================================================

:math:`L` is the number of layers, :math:`H` their width, :math:`I` the width of the MLP, :math:`D_q` and :math:`D_{kv}`
the widths of queries and keys, and :math:`V` the vocabulary size. The estimate omits memory fragmentation, and memory
for verifiers and for writing checkpoints.
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
"""Assumed number of tokens in a prompt, which is enough for a long problem with a template."""

CHUNK, GPU_CHUNKS = 8 * 2**20, 8
"""Maximum number of logits that the head computes at once on a CPU, and the factor for a GPU. The values are copied
from :mod:`outrider.model.head`, which this module does not import, since it must work without PyTorch."""


class Layout(NamedTuple):
    """The number of processes that train together, and whether each process holds the whole model or a shard.

    Attributes:
        offload: whether shards stay in host memory and are copied to the device only when used.
        gpu: whether each process has a GPU. If False, all processes run on the CPU.
    """

    processes: int = 1
    sharded: bool = False
    offload: bool = False
    gpu: bool = False

    def share(self, size: int) -> int:
        return -(-size // self.processes) if self.sharded else size


ALONE = Layout()


class Memory(NamedTuple):
    """The bytes that a process needs for each kind of data, such as weights or KV cache.

    Attributes:
        held: data that are on the device throughout training.
        phases: for each phase (such as sampling or learning), the data that are on the device only during this phase.
        host: shards that are in host memory instead of on the device.
        loading: host memory that every process needs to load the whole model before the model is sharded.
        checking: additional host memory of rank 0, which checks the forward pass before training
            (:class:`outrider.sample.self_check.SelfCheck`). If a sharded learner computes in bfloat16, this is the size
            of a bfloat16 copy of the matmul weights. Otherwise, the value is 0.
    """

    held: dict[str, int]
    phases: dict[str, dict[str, int]]
    host: dict[str, int]
    loading: int = 0
    checking: int = 0

    @property
    def host_peak(self) -> int:
        """Peak host memory of a process, for loading the model and for offloaded shards."""
        return max(self.loading, sum(self.host.values()))

    @property
    def peak(self) -> int:
        """Peak device memory: the memory used in the phase that needs the most."""
        return sum(self.held.values()) + max(sum(parts.values()) for parts in self.phases.values())


def most_rollouts(stages: Sequence[Stage], problems: int) -> tuple[int, list[str]]:
    """Return the maximum number of rollouts in a step, and the names of the exploration stages whose rollouts this
    number does not include. These are the first stage without a maximum number of rollouts, and all later stages.
    """
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
    """Return the bytes that a process needs for each kind of data. With ``evaluating``, include the memory for
    evaluations."""
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
    if recipe.samples_apart:  # the two phases run at the same time, and the sampling process has all weights
        copied["sampler's weights"] = 4 * whole
        phases = {"samples and learns": phases["samples"] | phases["learns"]}
    if layout.processes > 1 and not layout.sharded:
        phases["adds gradients"] = {"summed gradients": 4 * trained}
    away = shared if layout.offload else {}
    checking = low * (shape.layers * shape.layer_products + shape.head) if loading and low == 2 else 0
    return Memory(copied if layout.offload else shared | copied, phases, away, loading, checking)


def trained_parameters(recipe: Recipe, shape: DecoderShape) -> int:
    """Return the number of trained parameters: all parameters of the model, or the parameters of the adapter."""
    lora = recipe.policy.lora
    if lora is None:
        return shape.parameters
    return lora.rank * shape.layers * sum(a + b for a, b in shape.adapted(lora.targets))


def number_bytes(recipe: Recipe) -> int:
    """Return the bytes per number in the compute dtype."""
    return 2 if recipe.policy.dtype == "bfloat16" else 4


def wave(recipe: Recipe, shape: DecoderShape, evaluating: bool = False) -> tuple[int, int]:
    """Return the maximum number of rows that are decoded together, and a row's maximum length. With ``evaluating``,
    include the rows of evaluations."""
    rollouts, unbounded = most_rollouts(recipe.explore, recipe.train.problems)
    at_once = max(rollouts, evaluated_at_once(recipe)) if evaluating else rollouts
    rows = recipe.sample.most_rows if unbounded else min(recipe.sample.most_rows, at_once)
    return rows, min(recipe.sample.max_tokens + PROMPT, shape.context)


def evaluated_at_once(recipe: Recipe) -> int:
    """Return the maximum number of responses that an evaluation requests at once. An evaluation requests the samples
    for up to 100 problems at once, and all greedy responses at once."""
    evaluate = recipe.evaluate
    if not recipe.evaluates:
        return 0
    return max(min(evaluate.problems, EVALUATED_TOGETHER) * evaluate.n, evaluate.problems * evaluate.greedy)


def kv_cache(recipe: Recipe, shape: DecoderShape, tokens: int) -> int:
    """Return the size in bytes of a KV cache for ``tokens`` tokens."""
    return 2 * number_bytes(recipe) * shape.layers * shape.keys * tokens


def activations(shape: DecoderShape, low: int, adapter: bool = False) -> int:
    """Return the bytes of activations per token and layer, which ``tests/estimate/test_memory.py`` measures."""
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
        # while the cache grows, one layer is in memory twice
        "KV cache": kv_cache(recipe, shape, rows * longest + contexts)
        + kv_cache(recipe, shape, rows * longest) // shape.layers,
        "draws": 20 * rows * shape.vocabulary,
    }


def _learning(recipe: Recipe, shape: DecoderShape, layout: Layout) -> dict[str, int]:
    """Return the bytes that each kind of data needs at the time when the learner needs the most memory. If activations
    are recomputed, this time is in the backward pass of the head or of a layer."""
    low, adapter = number_bytes(recipe), recipe.policy.lora is not None
    longest = wave(recipe, shape)[1]
    tokens = max(recipe.learn.tokens_of_a_pass, longest)
    own = tokens * min(recipe.sample.max_tokens, longest) // longest  # prompt tokens need no logits
    layer = activations(shape, low, adapter) * tokens
    shares = layout.sharded and layout.processes > 1
    # shards are gathered in the compute dtype, so no copies are needed
    copies = low * shape.layer_products if low == 2 and not adapter and not shares else 0
    gathered = {"gathered layers": _gathered(shape, low, adapter) if shares else 0}
    head = _head(shape, low, adapter, own, CHUNK * (GPU_CHUNKS if layout.gpu else 1))
    if not recipe.learn.recomputes:
        all_layers = {"activations": shape.layers * layer, "products' copies": shape.layers * copies}
        return all_layers | {"head": head} | gathered
    kept = shape.layers * 4 * shape.width * tokens
    at_head = {"activations": kept, "head": head} | gathered
    # a tied head's gradient waits for the embedding's, and a gathered head's waits for the others gathered with it
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
