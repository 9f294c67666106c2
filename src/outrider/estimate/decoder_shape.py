"""The dimensions of a dense decoder, read from its config.json. This module does not import PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class DecoderShape(NamedTuple):
    """The dimensions of a dense decoder.

    Attributes:
        inner: width of the MLP.
        queries: total width of all query heads.
        keys: total width of all key heads.
        tied: whether the LM head and the embedding share their weights.
        head_norms: number of parameters in the query and key norms of a layer.
        biased: whether the query, key and value projections have biases.
        context: maximum number of tokens in a sequence.
    """

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
        """The input width and the output width of each linear map in a layer, by name."""
        h, q, kv, inner = self.width, self.queries, self.keys, self.inner
        attention = {"q_proj": (h, q), "k_proj": (h, kv), "v_proj": (h, kv), "o_proj": (q, h)}
        return attention | {"gate_proj": (h, inner), "up_proj": (h, inner), "down_proj": (inner, h)}

    def adapted(self, targets: str | Sequence[str]) -> list[tuple[int, int]]:
        """Return the input width and the output width of each linear map that an adapter changes."""
        return [widths for name, widths in self.linear.items() if targets == "all-linear" or name in targets]

    @property
    def layer_products(self) -> int:
        """Number of parameters in a layer's linear maps."""
        return sum(a * b for a, b in self.linear.values())

    @property
    def layer_parameters(self) -> int:
        biases = self.queries + 2 * self.keys if self.biased else 0
        return self.layer_products + 2 * self.width + biases + self.head_norms

    @property
    def head(self) -> int:
        """Number of parameters in the LM head. If the head is tied, the embedding shares these parameters."""
        return self.vocabulary * self.width

    @property
    def outside(self) -> int:
        """Number of parameters outside the layers: embedding, final norm and LM head."""
        return self.head * (1 if self.tied else 2) + self.width

    @property
    def parameters(self) -> int:
        return self.outside + self.layers * self.layer_parameters


def shape_of(config: Mapping[str, Any]) -> DecoderShape | None:
    """Return the dimensions of a dense decoder. Return None for all other models and for quantised models, whose memory
    needs differ."""
    if any("experts" in key for key in config) or config.get("quantization_config"):
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
