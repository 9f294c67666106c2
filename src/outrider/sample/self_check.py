"""Checks that sampler and learner reproduce the log-probabilities of the model's own forward pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from outrider.errors import UserError
from outrider.model.device import placement
from outrider.model.forward import Continuation, own_statistics
from outrider.model.load import Policy, context_length
from outrider.model.lora import adapter_outputs
from outrider.record import Ids
from outrider.sample.decoder import Decoder
from outrider.sample.kept import Block, Standing
from outrider.sample.local import decoder_of
from outrider.sample.store import BLOCK
from outrider.sample.wave import prefill

_LARGE_LOGIT = 16.0  # a soft cap of 30, 50 or 100 changes such logits by more than the bound
_LONGEST = 8192  # maximum window in tokens: longer windows are not tested
_SHAPES = ((3, 9), (11, 5), (14, 12), (1, 7))  # numbers of context tokens and response tokens
_PREFIX = 2  # response tokens that are prefilled with the context, as in a branch


class SelfCheckResult(NamedTuple):
    """The result of comparing a compute path (fused, packed or plain) with the model's own forward pass.

    Attributes:
        gap: the largest absolute difference between the path's values and the model's values, with float32 matmuls. The
            values are log-probabilities and entropies. If the weights are not float32, ``gap`` is the mean difference.
        bound: the largest allowed ``gap``.
        in_bfloat16: the mean difference of the same values with bfloat16 matmuls, or None if the policy uses float32.
            Rounding causes differences of a few hundredths, but a difference above 0.5 is a real error.
    """

    gap: float
    bound: float
    in_bfloat16: float | None

    @property
    def agrees(self) -> bool:
        return self.gap <= self.bound and (self.in_bfloat16 or 0.0) <= 0.5

    def __str__(self) -> str:
        return f"{self.gap:.1e}" + (
            "" if self.in_bfloat16 is None else f", in bfloat16 {self.in_bfloat16:.2g} on average"
        )


class SelfCheck:
    """Compares the log-probabilities of compute paths (fused, packed and plain) with those of the model's own forward
    pass. The model gets one unpadded sequence at a time.

    The sequences consist of random tokens and have several lengths. One sequence is longer than the attention windows
    and chunk sizes in the model's config. Windows and chunks that exceed 8,192 tokens or do not fit into the context
    are disregarded. For the sampler's decoder, log-probabilities of the whole vocabulary are compared. Contexts are
    left-padded, prefilled once and copied to several rows. These rows are decoded token by token and dropped when they
    end. For the learner, log-probabilities and entropies of response tokens are compared. The learner processes all
    rows in one pass. Create the object inside the context manager :func:`amplified_logits`, before Outrider's attention
    replaces the model's own.

    Attributes:
        exact: whether the weights are float32.
        bound: the largest allowed difference of log-probabilities. If ``exact``, the limit is 1e-3 for every
            log-probability. Otherwise, the limit is 0.3 for the mean difference.
        beyond: attention windows of more than 8,192 tokens, which are not tested.

    Raises:
        UserError: the model's own forward pass fails or gives NaN, the model's context is too short, or an adapter has
            no effect on the model.
    """

    def __init__(self, policy: Policy) -> None:
        self.exact = next(policy.model.parameters()).dtype is torch.float32
        # bfloat16 matmuls have about three significant digits; 0.3 is three times the rounding error of 24 layers
        self.bound = 1e-3 if self.exact else 0.3
        windows = _windows(policy.model)
        self.beyond = [window for window in windows if window > _LONGEST]
        reached = [w for w in windows if w <= _LONGEST and w + _SHAPES[0][1] < context_length(policy.model)]
        shapes = [_SHAPES, *([(window, _SHAPES[0][1])] for window in reached[-1:])]  # separate, for less padding
        self._batches = [batch for some in shapes if (batch := _random_rows(policy, some))]
        if not self._batches:
            raise UserError(
                f"{type(policy.model).__name__}: a context of {context_length(policy.model)} tokens is too short"
            )
        # computed before any path replaces the model's attention
        with torch.no_grad():
            self._wants = [[_own_logprobs(policy.model, row) for row in batch] for batch in self._batches]
        if idle := _idle_targets(policy.model, self._batches[0][0]):
            raise UserError(
                f"policy.lora.targets: an adapter on {', '.join(idle)} changes nothing in "
                f"{type(policy.model).__name__}, which reads the weights beneath it; leave it out"
            )
        if any(bool(want_TV.isnan().any()) for wants in self._wants for want_TV in wants):
            raise UserError(
                f"{type(policy.model).__name__}: its own forward pass gives NaN: check that its weights are complete"
            )

    @torch.no_grad()
    def compare(self, policy: Policy) -> SelfCheckResult:
        """Compare the policy's compute path with the model's own forward pass, once with float32 matmuls, and once with
        the policy's dtype if it is not float32."""
        exact = policy._replace(options=policy.options.model_copy(update={"dtype": "float32"}))
        apart = self._differences(exact)
        in_bfloat16 = None if policy.options.dtype == "float32" else float(self._differences(policy).mean())
        return SelfCheckResult(float(apart.max() if self.exact else apart.mean()), self.bound, in_bfloat16)

    @torch.no_grad()
    def continues(self, policy: Policy) -> bool:
        """Whether the policy's decoder agrees with the model when it reuses a kept KV cache."""
        exact = policy._replace(options=policy.options.model_copy(update={"dtype": "float32"}))
        try:
            apart = [
                a for pair in zip(self._batches, self._wants, strict=True) for a in _kept_differences(exact, *pair)
            ]
        except torch.OutOfMemoryError:
            raise
        except Exception:  # noqa: BLE001 - a model's own code may raise anything
            return False
        if not apart:
            return True  # caches that cannot be split are never kept, so nothing can differ
        every = torch.cat(apart)
        return float(every.max() if self.exact else every.mean()) <= self.bound

    def _differences(self, policy: Policy) -> Tensor:
        parts = []
        for rows, wants in zip(self._batches, self._wants, strict=True):
            parts += [*_learner_differences(policy, rows, wants), *_sampler_differences(policy, rows, wants)]
        return torch.cat(parts)


def _learner_differences(policy: Policy, rows: Sequence[Continuation], wants: Sequence[Tensor]) -> Iterator[Tensor]:
    """Yield differences of the learner's log-probabilities and entropies from reference values. The learner processes
    all rows in one forward pass."""
    dtype = placement(policy.options.dtype).dtype
    logprobs_N, entropies_N, _ = own_statistics(policy.model, policy.path, rows, dtype)
    want_NV = torch.cat([*wants])
    ids_N = torch.from_numpy(np.concatenate([row.token_ids for row in rows]).astype(np.int64))
    yield _apart(logprobs_N, want_NV.gather(1, ids_N.to(want_NV.device)[:, None])[:, 0])
    yield _apart(entropies_N, -(want_NV.exp() * want_NV.clamp_min(torch.finfo(want_NV.dtype).min)).sum(-1))


def _sampler_differences(policy: Policy, rows: Sequence[Continuation], wants: Sequence[Tensor]) -> Iterator[Tensor]:
    """Yield differences of the decoder's log-probabilities from the reference values ``wants``.

    Contexts are prefilled together if the decoder can batch them. Each context is then decoded twice with the same
    tokens, in two rows of the decoder's batch. Finished rows are dropped from the batch.
    """
    decoder, device = decoder_of(policy), policy.model.device
    contexts, together = _together(decoder, rows)
    for part in together:
        cache, logits_CV = prefill(decoder, [contexts[i] for i in part], device)
        yield from (_logits_apart(logits_V, wants[i][_PREFIX]) for i, logits_V in zip(part, logits_CV, strict=True))
        alive = [i for i in part for _ in range(2)]
        cache = cache.spread(torch.arange(len(part), device=device).repeat_interleave(2), cache.column + BLOCK)
        for t in range(_PREFIX, max(len(wants[i]) for i in part) - 1):
            kept = [at for at, i in enumerate(alive) if t + 1 < len(wants[i])]
            if len(kept) < len(alive):
                alive = [alive[at] for at in kept]
                cache.keep(torch.tensor(kept, device=device), cache.columns)
            ids_B1 = torch.tensor([[int(rows[i].token_ids[t])] for i in alive], device=device)
            logits_BV = decoder.forward(ids_B1, cache)
            yield from (_logits_apart(logits_V, wants[i][t + 1]) for i, logits_V in zip(alive, logits_BV, strict=True))


def _kept_differences(policy: Policy, rows: Sequence[Continuation], wants: Sequence[Tensor]) -> Iterator[Tensor]:
    """Let the decoder continue from a kept KV cache, and yield how its log-probabilities differ from the reference
    values ``wants``.

    For each context, the KV cache of all tokens except the last one or two is kept. The decoder prefills these last
    tokens, and then decodes one more token.
    """
    decoder, device = decoder_of(policy), policy.model.device
    contexts, together = _together(decoder, rows)
    for part in together:
        cache, _ = prefill(decoder, [contexts[i] for i in part], device)
        if (parts := cache.parts()) is None:
            return
        block, starts = Block(parts), cache.starts_B.tolist()
        kept = [contexts[i][: -1 - at % 2] for at, i in enumerate(part)]
        standing = [Standing(block, at, start, ids) for at, (start, ids) in enumerate(zip(starts, kept, strict=True))]
        cache, logits_CV = prefill(decoder, [contexts[i] for i in part], device, standing)
        yield from (_logits_apart(logits_V, wants[i][_PREFIX]) for i, logits_V in zip(part, logits_CV, strict=True))
        next_B1 = torch.tensor([[int(rows[i].token_ids[_PREFIX])] for i in part], device=device)
        for i, logits_V in zip(part, decoder.forward(next_B1, cache), strict=True):
            if len(wants[i]) > _PREFIX + 1:
                yield _logits_apart(logits_V, wants[i][_PREFIX + 1])


def _together(decoder: Decoder[Any], rows: Sequence[Continuation]) -> tuple[list[Ids], list[list[int]]]:
    """Return the contexts to prefill, and a list of context indices for each prefill call."""
    contexts = [np.concatenate([row.context_ids, row.token_ids[:_PREFIX]]) for row in rows]
    everything = list(range(len(rows)))
    return contexts, [everything] if decoder.batchable(contexts) else [[i] for i in everything]


@contextmanager
@torch.no_grad()
def amplified_logits(model: PreTrainedModel) -> Iterator[None]:
    """Context manager that makes logits large enough for soft caps to have an effect, and gives adapters random
    weights, since their initial output is 0.

    If the largest logit is below 16, the weights of the LM head are multiplied by a power of two. Head and adapter are
    restored on exit.
    """
    head, kept = model.get_output_embeddings(), {name: p.clone() for name, p in adapter_outputs(model).items()}
    generator = torch.Generator().manual_seed(0)
    for parameter in adapter_outputs(model).values():
        parameter.copy_(0.1 * torch.randn(parameter.shape, generator=generator))
    weight = getattr(head, "weight", None)
    try:
        if weight is not None:
            largest = float(_own_logits(model, torch.arange(3, device=weight.device)).abs().max())
            # a power of two, so that no weight is rounded
            factor = 2.0 ** np.ceil(np.log2(_LARGE_LOGIT / largest)) if 0 < largest < _LARGE_LOGIT else 1.0
            # a new parameter, since an embedding tied to the head must not change
            head.weight = torch.nn.Parameter(weight * factor, requires_grad=weight.requires_grad)
        yield
    finally:
        if weight is not None:
            head.weight = weight
        for name, parameter in adapter_outputs(model).items():
            parameter.copy_(kept[name])


def _windows(model: PreTrainedModel) -> list[int]:
    """Return all attention windows and scan chunk sizes in the config, shortest first."""
    named = model.config.get_text_config().to_dict().items()
    return sorted({v for k, v in named if isinstance(v, int) and v > 1 and ("window" in k or "chunk" in k)})


def _random_rows(policy: Policy, shapes: Sequence[tuple[int, int]]) -> list[Continuation]:
    generator = np.random.default_rng(0)
    size = min(policy.model.config.get_text_config().vocab_size, len(policy.tokenizer))
    ordinary = np.setdiff1d(np.arange(size), policy.tokenizer.all_special_ids)
    room = context_length(policy.model)
    drawn = [generator.choice(ordinary, context + own).astype(np.int32) for context, own in shapes]
    return [
        Continuation(ids[:context], ids[context:room])
        for ids, (context, _) in zip(drawn, shapes, strict=True)
        if context + _PREFIX < min(len(ids), room)
    ]


def _own_logprobs(model: PreTrainedModel, row: Continuation) -> Tensor:
    """Return reference log-probabilities of the whole vocabulary for every response token, ``[T, V]``."""
    ids = np.concatenate([row.context_ids, row.token_ids]).astype(np.int64)
    logits_LV = _own_logits(model, torch.from_numpy(ids).to(model.device))
    return logits_LV[len(row.context_ids) - 1 : -1].log_softmax(-1)


def _own_logits(model: PreTrainedModel, ids_L: Tensor) -> Tensor:
    """Return the logits of the model's own forward pass, float32, ``[L, V]``."""
    try:
        logits_LV: Tensor = model(input_ids=ids_L[None], use_cache=False).logits[0]
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # if config and weights do not match, this call may raise any exception
        line = str(error).strip().split("\n")[0]
        raise UserError(
            f"{type(model).__name__}: its own forward pass fails ({type(error).__name__}: {line})"
        ) from error
    return logits_LV.float()


@torch.enable_grad()
def _idle_targets(model: PreTrainedModel, row: Continuation) -> list[str]:
    """Return the names of the adapter's target modules, such as ``dt_proj``, that get no gradient in any layer.

    For example, Mamba's own code multiplies by ``dt_proj.weight`` directly, which bypasses an adapter around
    ``dt_proj``.
    """
    outputs = adapter_outputs(model)
    if not outputs:
        return []
    ids = torch.from_numpy(np.concatenate([row.context_ids, row.token_ids]).astype(np.int64)).to(model.device)
    total = model(input_ids=ids[None], use_cache=False).logits.float().square().sum()
    gradients = torch.autograd.grad(total, list(outputs.values()), allow_unused=True)
    kinds = [name.partition(".lora_B.")[0].rpartition(".")[2] for name in outputs]
    alive = {kind for kind, g in zip(kinds, gradients, strict=True) if g is not None and bool(g.any())}
    return sorted(set(kinds) - alive)


def _logits_apart(logits_V: Tensor, want_V: Tensor) -> Tensor:
    return _apart(logits_V.float().log_softmax(-1), want_V)


def _apart(got: Tensor, want: Tensor) -> Tensor:
    """Return the flattened absolute differences. A difference is 0 if both values are minus infinity, and infinite if
    one value is NaN."""
    differences = torch.where(got == want, 0.0, (got.float() - want).abs())
    return differences.nan_to_num(nan=float("inf"), posinf=float("inf")).flatten()
