r"""What a run will need, from its recipe and the model's config.json alone: generated tokens and memory.

Tokens of a step are bounded by the rollouts that the stages may ask for, each of ``sample.max_tokens``. Memory is that
of one process, in bytes, for :math:`P` parameters of which :math:`T` are trained, and for matrix products in numbers
of :math:`b` bytes (4, or 2 with ``policy.dtype: bfloat16``):

================  =====================================================================================================
weights           :math:`4P`; beside an adapter :math:`bP + 4T`
gradients         :math:`4T`
AdamW             :math:`8T`
reference model   :math:`4P` where ``objective.kl`` is not 0; beside an adapter :math:`4T`
sampler's copy    :math:`bP` on the fused path (Llama, Mistral, Qwen2, Qwen3); not for an adapter in bfloat16
keys and values   :math:`2 b\, L\, D_{kv} \cdot R \cdot C`: :math:`R` rows of a wave, of ``max_tokens`` and 512
activations       per token of a micro-batch and layer :math:`24 H + 16 (I + D_q + D_{kv})`, in bfloat16
                  :math:`26 H + 8 (I + D_q + D_{kv})`; recomputed: :math:`4 H`, and one layer of the former
head              a few chunks of logits (:mod:`outrider.model.head`)
================  =====================================================================================================

:math:`L` layers of width :math:`H`, inner width :math:`I`, queries of :math:`D_q` and keys of :math:`D_{kv}` numbers.
Left out: the allocator's gaps, the libraries themselves, and verifiers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from outrider.config import Recipe
from outrider.explore import Bounds, Stage
from outrider.sample.options import FUSED_FAMILIES

_PROMPT = 512  # tokens, where none has been seen: that of a long problem with a template
_HEAD = 4 * 32 * 2**20
_GIB = 2**30


class DecoderShape(NamedTuple):
    """Sizes of a decoder, as its config.json has them."""

    vocabulary: int
    layers: int
    width: int
    inner: int
    queries: int
    keys: int
    tied: bool
    head_norms: int
    biased: bool
    context: int

    @property
    def linear(self) -> dict[str, tuple[int, int]]:
        """Input and output width of the linear maps of a layer."""
        h, q, kv, inner = self.width, self.queries, self.keys, self.inner
        attention = {"q_proj": (h, q), "k_proj": (h, kv), "v_proj": (h, kv), "o_proj": (q, h)}
        return attention | {"gate_proj": (h, inner), "up_proj": (h, inner), "down_proj": (inner, h)}

    def adapted(self, targets: str | Sequence[str]) -> list[tuple[int, int]]:
        """The maps that an adapter changes."""
        return [widths for name, widths in self.linear.items() if targets == "all-linear" or name in targets]

    @property
    def parameters(self) -> int:
        biases = self.queries + 2 * self.keys if self.biased else 0
        layer = sum(a * b for a, b in self.linear.values()) + 2 * self.width + biases + self.head_norms
        return self.vocabulary * self.width * (1 if self.tied else 2) + self.layers * layer + self.width


def shape_of(config: Mapping[str, Any]) -> DecoderShape | None:
    """The sizes of a dense decoder; None for anything else, which has other parameters."""
    if any("experts" in key for key in config):
        return None
    try:
        width, heads = int(config["hidden_size"]), int(config["num_attention_heads"])
        dim = int(config.get("head_dim") or width // heads)
        return DecoderShape(
            vocabulary=int(config["vocab_size"]),
            layers=int(config["num_hidden_layers"]),
            width=width,
            inner=int(config["intermediate_size"]),
            queries=heads * dim,
            keys=int(config.get("num_key_value_heads") or heads) * dim,
            tied=bool(config.get("tie_word_embeddings", False)),
            head_norms=2 * dim if config.get("model_type") == "qwen3" else 0,
            biased=config.get("model_type") == "qwen2",
            context=int(config.get("max_position_embeddings") or 1 << 30),
        )
    except (KeyError, TypeError, ValueError):
        return None


def most_rollouts(stages: Sequence[Stage], problems: int) -> tuple[int, list[str]]:
    """The most rollouts of a step up to the first stage without a bound, and the names of this and later stages."""
    bounds, most = Bounds(), 0
    for i, stage in enumerate(stages):
        bounds = stage.bounds(bounds, problems)
        if bounds.most is None:
            return most, [type(after).__name__.lower() for after in stages[i:]]
        most = bounds.most
    return most, []


def memory(recipe: Recipe, shape: DecoderShape, model_type: str) -> dict[str, int]:
    """Bytes by part, as the module says."""
    lora, low = recipe.policy.lora, 2 if recipe.policy.dtype == "bfloat16" else 4
    whole = shape.parameters
    trained = whole if lora is None else lora.rank * shape.layers * sum(a + b for a, b in shape.adapted(lora.targets))
    rollouts, unbounded = most_rollouts(recipe.explore, recipe.train.problems)
    rows = recipe.sample.rows if unbounded else min(recipe.sample.rows, rollouts)
    longest = min(recipe.sample.max_tokens + _PROMPT, shape.context)
    passed = max(recipe.learn.micro_tokens, longest)
    layer, kept = activations(shape, low) * passed, 4 * shape.width * passed
    fused = model_type in FUSED_FAMILIES and recipe.sample.path in ("auto", "fused") and (lora is None or low == 4)
    return {
        "weights": 4 * whole if lora is None else low * whole + 4 * trained,
        "gradients": 4 * trained,
        "AdamW": 8 * trained,
        "reference model": 4 * trained if recipe.objective.kl.coef else 0,
        "sampler's copy": low * whole if fused else 0,
        "keys and values": 2 * low * shape.layers * shape.keys * rows * longest,
        "activations": layer + shape.layers * kept if recipe.learn.gradient_checkpointing else shape.layers * layer,
        "head": _HEAD,
    }


def estimate(recipe: Recipe, config: Mapping[str, Any] | None) -> list[str]:
    """The estimate in sentences."""
    rollouts, unbounded = most_rollouts(recipe.explore, recipe.train.problems)
    tokens = rollouts * recipe.sample.max_tokens
    adds = "adds" if len(unbounded) == 1 else "and the stages behind it add"
    more = f", and what {unbounded[0]} {adds}" if unbounded else ""
    lines = [
        f"at most {rollouts:,} rollouts and {tokens:,} generated tokens a step{more} "
        f"({recipe.train.problems} problems, {recipe.sample.max_tokens} tokens a response)"
    ]
    shape = None if config is None else shape_of(config)
    if config is None or shape is None:
        why = "has no config.json on this machine" if config is None else "is no dense decoder that this knows"
        return [*lines, f"memory: {recipe.model} {why}, so there is no estimate"]
    parts = memory(recipe, shape, str(config.get("model_type")))
    sizes = ", ".join(f"{part} {size / _GIB:.2f}" for part, size in parts.items() if size)
    total = sum(parts.values()) / _GIB
    return [*lines, f"memory of a process, about {total:.1f} GiB for {shape.parameters:,} parameters: {sizes}"]


def activations(shape: DecoderShape, low: int) -> int:
    """Bytes per token and layer that the backward pass needs, as ``tests/test_estimate.py`` measures them."""
    return (24 if low == 4 else 26) * shape.width + 4 * low * (shape.inner + shape.queries + shape.keys)
