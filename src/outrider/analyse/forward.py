"""Computes log-probabilities, entropies and gradient norms of given tokens, with packed sequences and a chunked LM
head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from outrider.errors import UserError
from outrider.learn.batching import micro_batches
from outrider.model.forward import own_hidden
from outrider.model.head import CHUNK
from outrider.model.load import Policy
from outrider.model.nucleus import nucleus_sizes
from outrider.record import Ids, Rollout

AnyFloats = NDArray[np.floating]


class TokenValues(NamedTuple):
    r"""Statistics of the T tokens after a rollout's prompt, under one policy. All fields except the last have shape
    ``[T]``.

    The distribution at a token's position is :math:`p = \mathrm{softmax}(W h / \tau)`, where :math:`W` is the weight
    matrix of the LM head and :math:`h` is its input. :math:`e` is the token's one-hot vector.

    Attributes:
        logprobs: log-probability of the token, in nats.
        entropies: entropy of :math:`p` over the whole vocabulary, in nats.
        error_norms: :math:`\|e - p\|_2`, between 0 and :math:`\sqrt2`.
        hidden_norms: :math:`\|h\|_2`.
        gradient_norms: Frobenius norm of the gradient of the token's log-probability with respect to :math:`W`. Since
            the gradient has rank one, its norm :math:`\|(e - p) h^\top\|_F / \tau` is the product of the error norm and
            the hidden norm, divided by :math:`\tau`.
        alternatives: id of the most likely token other than the sampled token; in a tie, the lowest id.
        alternative_logprobs: log-probability of the alternative token, in nats.
        branching_TM: nucleus sizes for ``M`` probability masses, with shape ``[T, M]``. A nucleus size is the smallest
            number of tokens whose total probability is at least the mass.
    """

    logprobs: AnyFloats
    entropies: AnyFloats
    error_norms: AnyFloats
    hidden_norms: AnyFloats
    gradient_norms: AnyFloats
    alternatives: NDArray[np.int32]
    alternative_logprobs: AnyFloats
    branching_TM: NDArray[np.int32]


class _Sequence(NamedTuple):
    place: int
    context_ids: Ids
    token_ids: Ids

    @property
    def length(self) -> int:
        return len(self.context_ids) + len(self.token_ids)


@torch.inference_mode()
def token_values(
    policy: Policy,
    rollouts: Sequence[Rollout],
    temperature: float = 1.0,
    masses: Sequence[float] = (),
    micro_tokens: int = 4096,
) -> list[TokenValues]:
    """Return statistics of the tokens after each rollout's prompt, under the policy, in the order of ``rollouts``.

    The model must accept packed sequences; :func:`outrider.model.attention.use_plans` prepares a model for them. A call
    needs memory for a forward pass over ``micro_tokens`` tokens and for a few chunks of
    :data:`outrider.model.head.CHUNK` logits. The split into micro-batches affects only the last bits of the results.
    """
    sequences = [
        _Sequence(i, np.concatenate([r.prompt_ids, r.prefix_ids]), r.token_ids) for i, r in enumerate(rollouts)
    ]
    result = [_nothing(len(masses))] * len(rollouts)
    for micro in micro_batches([s for s in sequences if len(s.token_ids)], micro_tokens):
        for sequence, values in zip(micro, _forward(policy, micro, temperature, masses), strict=True):
            result[sequence.place] = values
    return result


def head_values(
    hidden_NH: Tensor,
    weight_VH: Tensor,
    bias_V: Tensor | None,
    targets_N: Tensor,
    temperature: float = 1.0,
    masses: Sequence[float] = (),
    chunk: int = CHUNK,
) -> list[Tensor]:
    """Compute the fields of :class:`TokenValues` from hidden states, and return them as tensors. Only about ``chunk``
    logits are in memory at a time.

    The precision is float32 or higher.
    """
    size = max(1, chunk // len(weight_VH))
    dtype = torch.promote_types(hidden_NH.dtype, torch.float32)
    parts = []
    for hidden_tH, targets_t in zip(hidden_NH.split(size), targets_N.split(size), strict=True):
        logits_tV = torch.nn.functional.linear(hidden_tH, weight_VH, bias_V).to(dtype)
        hidden_t = torch.linalg.vector_norm(hidden_tH, dim=-1, dtype=dtype)
        parts.append(_chunk_values(logits_tV.div_(temperature), hidden_t, targets_t[:, None], temperature, masses))
    return [torch.cat(column) for column in zip(*parts, strict=True)]


def _chunk_values(
    logits_tV: Tensor, hidden_t: Tensor, targets_t1: Tensor, temperature: float, masses: Sequence[float]
) -> tuple[Tensor, ...]:
    logps_tV = logits_tV.log_softmax(-1)
    probs_tV = logps_tV.exp()
    logprobs_t = logps_tV.gather(1, targets_t1)[:, 0]
    entropies_t = -(probs_tV * logps_tV.clamp_min(torch.finfo(logps_tV.dtype).min)).sum(-1)  # keeps -inf * 0 at 0
    branching_tM = nucleus_sizes(probs_tV, masses)
    # overwrites logps_tV, which is no longer needed, since a copy of [t, V] would double the memory
    alternative_logprobs_t, alternatives_t = logps_tV.scatter_(1, targets_t1, float("-inf")).max(-1)
    # sum over all other tokens, since 1 - p would lose its digits for a token with a probability near 1
    others_tV = probs_tV.scatter_(1, targets_t1, 0.0)
    errors_t = torch.hypot(others_tV.sum(-1), torch.linalg.vector_norm(others_tV, dim=-1))
    return (
        logprobs_t,
        entropies_t,
        errors_t,
        hidden_t,
        errors_t * hidden_t / temperature,
        alternatives_t.int(),
        alternative_logprobs_t,
        branching_tM,
    )


def _forward(
    policy: Policy, sequences: Sequence[_Sequence], temperature: float, masses: Sequence[float]
) -> Iterator[TokenValues]:
    if policy.path.name == "plain":
        raise UserError(
            f"{type(policy.model).__name__} runs on the plain path, which returns only logits; outrider analyse needs "
            "the input of the language-model head"
        )
    hidden_NH, targets_N = own_hidden(policy.model, sequences)
    head = policy.model.get_output_embeddings()
    columns = head_values(hidden_NH, head.weight, getattr(head, "bias", None), targets_N, temperature, masses)
    ends = np.cumsum([len(s.token_ids) for s in sequences])[:-1]
    split = [np.split(column.cpu().numpy(), ends) for column in columns]
    return (TokenValues(*arrays) for arrays in zip(*split, strict=True))


def _nothing(masses: int) -> TokenValues:
    numbers, ids = np.zeros(0, np.float32), np.zeros(0, np.int32)
    return TokenValues(numbers, numbers, numbers, numbers, numbers, ids, numbers, np.zeros((0, masses), np.int32))
