"""A decoder for the Llama, Mistral and Qwen families. It computes the same results as the model, with fewer and larger
operations.

Differences from the model's own forward pass: one matmul computes the query, key and value projections, and a second
matmul computes the gate and up projections. Norm weights are folded into the next matmul. The attention scale is folded
into the query weights, or into the query norm if there is one. The rotary embedding is computed as one complex
multiplication. For this purpose, the decoder's copy of the query and key weights has reordered rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import PreTrainedModel

from outrider.model.lora import adapter_outputs, foldable, folded
from outrider.sample.decoder import StoreDecoder
from outrider.sample.options import FUSED_FAMILIES
from outrider.sample.store import Store

_ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
_MLP = ("gate_proj", "up_proj", "down_proj")
_FIXED_ROPES = ("default", "linear", "llama3", "yarn")  # other rotary types depend on the input length


class FusedLayer(NamedTuple):
    """Fused copies of one layer's weights, which include the weights of the layer's norms.

    Biases and query-key norms are None if the model family has no such weights.
    """

    qkv: Tensor
    qkv_bias: Tensor | None
    norm_q: Tensor | None
    norm_k: Tensor | None
    out: Tensor
    out_bias: Tensor | None
    gate_up: Tensor
    down: Tensor


def supports(model: PreTrainedModel, dtype: torch.dtype = torch.float32) -> bool:
    """Whether the fused decoder supports the model, and thus computes the same results as the model's own forward pass.

    The decoder supports known model families with full attention, a fixed rotary embedding, and linear layers that are
    plain or have a mergeable adapter.

    The decoder does not support a bfloat16 copy of a model with an adapter.
    """
    config = model.config
    # merging into bfloat16 weights loses adapter updates smaller than 1/256 of the weight
    if dtype is not torch.float32 and adapter_outputs(model):
        return False
    if config.model_type not in FUSED_FAMILIES or getattr(config, "hidden_act", "") != "silu":
        return False
    if any(kind != "full_attention" for kind in getattr(config, "layer_types", None) or ()):
        return False
    if not getattr(config, "layer_types", None) and getattr(config, "sliding_window", None) is not None:
        return False
    rope = getattr(config, "rope_parameters", None) or {}
    # a linear layer of another class (quantised, another adapter type) would silently give wrong results
    layers: Any = model.get_decoder().layers
    attention = [getattr(layer.self_attn, name) for layer in layers for name in _ATTENTION]
    mlp = [getattr(layer.mlp, name) for layer in layers for name in _MLP]
    head = model.get_output_embeddings()
    readable = type(head) is torch.nn.Linear and all(map(foldable, attention + mlp))
    return readable and all(linear.bias is None for linear in mlp) and rope.get("rope_type", "default") in _FIXED_ROPES


class FusedDecoder(StoreDecoder):
    """A decoder with a fused copy of the model's weights. ``updated`` rebuilds this copy after a training step.

    Args:
        dtype: dtype of the copy and of all computation.
    """

    def __init__(self, model: PreTrainedModel, dtype: torch.dtype = torch.float32) -> None:
        self._model, self._dtype = model, dtype
        config = model.config
        self._heads, self._kv_heads = config.num_attention_heads, config.num_key_value_heads
        self._dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self._eps = float(config.rms_norm_eps)
        self._epsilon = torch.tensor(self._eps, device=model.device)  # a tensor, to avoid a sync
        self._rotary = torch.empty(0, self._dim // 2, dtype=torch.complex64)
        self._layers: list[FusedLayer] = []
        self.updated()

    @property
    def layers(self) -> int:
        return int(self._model.config.num_hidden_layers)

    @torch.no_grad()
    def updated(self) -> None:
        body: Any = self._model.get_decoder()
        # each old layer is freed before its new copy is created: two full copies may not fit in memory
        old, self._layers = self._layers, []
        for layer in body.layers:
            del old[:1]
            self._layers.append(FusedLayer(*map(self._cast, self._fuse(layer))))
        self._embedding = self._head = torch.empty(0)
        self._embedding = self._cast(body.embed_tokens.weight.detach())
        head = self._model.get_output_embeddings()
        self._head = self._cast(_scaled(head.weight, body.norm.weight))
        self._head_bias = self._cast(getattr(head, "bias", None))

    @torch.no_grad()
    def forward(self, ids_BQ: Tensor, cache: Store) -> Tensor:
        rows, width = ids_BQ.shape
        positions_BQ = cache.positions(width)
        self._rotate_up_to(cache.columns, positions_BQ.device)
        turn = self._rotary[positions_BQ.reshape(-1)][:, None, None]  # [B * Q, 1, 1, D / 2]
        x = F.embedding(ids_BQ.reshape(-1), self._embedding)
        for i, layer in enumerate(self._layers):
            x = self._attention(i, layer, x, turn, rows, width, cache)
            h = _normed(x, self._epsilon)
            gate, up = F.linear(h, layer.gate_up).chunk(2, -1)
            x = torch.addmm(x, F.silu(gate).mul_(up), layer.down.t())
        cache.column += width
        # contexts are left-padded, so every row's last token is in the last column
        last = x.view(rows, width, -1)[:, -1]
        return F.linear(_normed(last, self._epsilon), self._head, self._head_bias)

    def _attention(
        self, index: int, layer: FusedLayer, x: Tensor, turn: Tensor, rows: int, width: int, store: Store
    ) -> Tensor:
        heads, kv, dim = self._heads, self._kv_heads, self._dim
        per_kv = heads // kv  # order per key head: its query heads, the key, the value
        h = _normed(x, self._epsilon)
        qkv = F.linear(h, layer.qkv, layer.qkv_bias).view(rows * width, kv, per_kv + 2, dim)
        qk, v = qkv[:, :, :-1], qkv[:, :, -1]
        if layer.norm_q is not None and layer.norm_k is not None:
            q_normed = F.rms_norm(qk[:, :, :-1], (dim,), layer.norm_q, self._eps)
            qk = torch.cat([q_normed, F.rms_norm(qk[:, :, -1:], (dim,), layer.norm_k, self._eps)], 2)
        # complex numbers need at least float32, and so does the accuracy of late positions
        pairs = torch.view_as_complex(qk.float().unflatten(-1, (dim // 2, 2)))
        qk = torch.view_as_real(pairs * turn).flatten(-2).to(x.dtype)
        q, k = qk[:, :, :-1], qk[:, :, -1]
        # One-token decoding: queries are already grouped by their shared key, as attend_one expects, so no copy is
        # needed.
        if width == 1:
            mixed = store.attend_one(index, q.flatten(0, 1), k, v, 1.0, None).view(rows, heads * dim)
        else:
            split = (rows, width, -1, dim)
            q, k, v = (t.reshape(split).transpose(1, 2) for t in (q, k, v))
            mixed = store.attend(index, q, k, v, 1.0, None).reshape(rows * width, heads * dim)
        if layer.out_bias is not None:
            x = x + layer.out_bias
        return torch.addmm(x, mixed, layer.out.t())

    def _rotate_up_to(self, columns: int, device: torch.device) -> None:
        """Extend the table of rotary embeddings, ``[positions, D / 2]``, to ``columns`` positions, using the model's
        rotary module."""
        if len(self._rotary) >= columns:
            return
        positions = torch.arange(columns, device=device)[None]
        like = torch.zeros(1, dtype=torch.float32, device=device)
        cos, sin = self._model.get_decoder().rotary_emb(like, positions)
        # the two halves of cos and sin are equal, so one half has the angles of all pairs
        self._rotary = torch.complex(cos[0, :, : self._dim // 2].float(), sin[0, :, : self._dim // 2].float())

    def _fuse(self, layer: Any) -> FusedLayer:
        attention, mlp = layer.self_attn, layer.mlp
        projections = (attention.q_proj, attention.k_proj, attention.v_proj)
        norm_q, norm_k = (getattr(attention, name, None) for name in ("q_norm", "k_norm"))
        pairs, scale = self._pairs(), self._dim**-0.5
        fold = (scale if norm_q is None else 1.0, 1.0, 1.0)  # with a query norm, the scale goes into norm_q
        # the attention scale (D ** -0.5) is multiplied into the query weights, so attention uses scale 1
        weights = [folded(p) * f for p, f in zip(projections, fold, strict=True)]
        biases = [p.bias[:, None] * f for p, f in zip(projections, fold, strict=True) if p.bias is not None]
        return FusedLayer(
            qkv=_scaled(self._by_group(*weights), layer.input_layernorm.weight),
            qkv_bias=self._by_group(*biases)[:, 0] if biases else None,
            norm_q=None if norm_q is None else norm_q.weight[pairs] * scale,
            norm_k=None if norm_k is None else norm_k.weight[pairs],
            out=folded(attention.o_proj).detach(),
            out_bias=attention.o_proj.bias,
            gate_up=_scaled(
                torch.cat([folded(mlp.gate_proj), folded(mlp.up_proj)]), layer.post_attention_layernorm.weight
            ),
            down=folded(mlp.down_proj).detach(),
        )

    def _cast(self, weight: Any) -> Any:
        return weight if weight is None or self._dtype is torch.float32 else weight.to(self._dtype)

    def _by_group(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Concatenate the rows of the three projections, one KV head after the other. For each KV head: first the rows
        of its query heads, then its key rows, then its value rows. Query and key rows are ordered in rotary pairs."""
        # queries and keys are permuted in the same way, so the attention scores do not change
        kv, dim, pairs = self._kv_heads, self._dim, self._pairs()
        q, k, v = (w.reshape(kv, -1, dim, w.shape[-1]) for w in (q, k, v))
        return torch.cat([q[:, :, pairs], k[:, :, pairs], v], 1).flatten(0, 2)

    def _pairs(self) -> Tensor:
        """Return the permutation that puts element i of a head next to its rotary partner, element i + D/2."""
        half = self._dim // 2
        order: Tensor = torch.stack([torch.arange(half), torch.arange(half) + half], 1).reshape(-1)
        return order


def _normed(x: Tensor, epsilon: Tensor) -> Tensor:
    """Apply an RMS norm without weights."""
    # takes half the time of F.rms_norm on a CPU; the sum of squares is float32 even for bfloat16, as in the model
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
    scale = torch.addcmul(epsilon, norm, norm, value=1.0 / x.shape[-1]).rsqrt_()
    return x * scale.to(x.dtype)


def _scaled(weight_OI: Tensor, norm_I: Tensor) -> Tensor:
    return weight_OI.detach() * norm_I.detach()
