"""Nucleus sizes: the number of plausible next tokens at each position of a response."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from outrider.model.forward import Continuation, own_hidden
from outrider.model.head import most_logits
from outrider.record import Rollout

ROUNDING = 1e-6
"""A probability mass that is missed by less than this counts as reached, since float32 sums are not more precise."""


def nucleus_sizes(probs_TV: Tensor, masses: Sequence[float]) -> Tensor:
    """Return, for each position and mass, the size of the smallest set of tokens with at least that probability mass:
    ``[T, M]``.

    The set includes the token that brings the sum up to the mass. A mass missed by less than ``ROUNDING`` counts as
    reached. Source: rollout branching factor, STILL report, arXiv 2508.07534, section 2.2, with mass 0.95. The report
    does not say whether the last token is included, or which temperature is used; Outrider includes this token, and
    uses temperature 1.

    >>> nucleus_sizes(torch.tensor([[0.5, 0.25, 0.125, 0.125], [0.0, 1.0, 0.0, 0.0]]), [0.5, 0.75, 0.8]).tolist()
    [[1, 2, 3], [1, 1, 1]]
    """
    if not masses:
        return torch.zeros(len(probs_TV), 0, dtype=torch.int32, device=probs_TV.device)
    ordered_TV = probs_TV.sort(dim=-1, descending=True).values
    # the mass before each token, since a nucleus includes the token that reaches the mass
    before_TV = ordered_TV.cumsum(-1, dtype=torch.float64) - ordered_TV
    return torch.stack([(before_TV < mass - ROUNDING).sum(-1) for mass in masses], 1).int()


@torch.inference_mode()
def branching_of(model: PreTrainedModel, rollout: Rollout, mass: float) -> NDArray[np.int32]:
    """Return the nucleus size at each sampled token of a rollout, given its prompt and prefix, at temperature 1.

    The model must be prepared with :func:`outrider.model.attention.use_plans`. Logits are computed in chunks, as in
    :mod:`outrider.model.head`.
    """
    if not len(rollout.token_ids):
        return np.zeros(0, np.int32)
    sequence = Continuation(np.concatenate([rollout.prompt_ids, rollout.prefix_ids]), rollout.token_ids)
    hidden_NH, _ = own_hidden(model, [sequence])
    head = model.get_output_embeddings()
    bias = getattr(head, "bias", None)
    parts = []
    for hidden_tH in hidden_NH.split(max(1, most_logits(hidden_NH.device) // len(head.weight))):
        logits_tV = torch.nn.functional.linear(hidden_tH, head.weight, bias)
        probs_tV = logits_tV.to(torch.promote_types(logits_tV.dtype, torch.float32)).softmax(-1)
        parts.append(nucleus_sizes(probs_tV, [mass])[:, 0])
    sizes_N: NDArray[np.int32] = torch.cat(parts).cpu().numpy()
    return sizes_N if rollout.trainable_T is None else sizes_N[rollout.trainable_T]
