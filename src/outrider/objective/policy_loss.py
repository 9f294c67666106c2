"""The clipped policy-gradient loss with KL, as a weighted sum over tokens."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from outrider.objective.options import ObjectiveOptions

MAX_LOG_RATIO = 20.0


class Tokens(NamedTuple):
    """The own tokens of a micro-batch, end to end: every tensor is ``[N]``."""

    old_logprobs: Tensor
    advantages: Tensor
    weights: Tensor


class PolicyLoss:
    r"""Loss of one micro-batch: :math:`\sum_t w_t\,(\ell_t + \beta\, k_t)`.

    .. math:: \ell_t = -\min\big(\rho_t A_t,\; \mathrm{clip}(\rho_t, 1 - \epsilon_l, 1 + \epsilon_h)\, A_t\big), \qquad
              k_t = e^{d_t} - d_t - 1, \quad d_t = \log \pi_\mathrm{ref} - \log \pi

    with the ratio :math:`\rho_t = \pi / \pi_\mathrm{old}` at token level, its logarithm bounded to ±20 against
    overflow (counted as ``log_ratio_bounded``). The weights hold every denominator (:mod:`outrider.objective.weights`).

    Sources: PPO, Schulman et al. 2017, arXiv 1707.06347, Eq. 7; the k3 estimator of GRPO, arXiv 2402.03300, Eq. 4.
    """

    def __init__(self, options: ObjectiveOptions) -> None:
        self.options = options

    @property
    def needs_reference(self) -> bool:
        return self.options.kl > 0

    @property
    def diagnostics(self) -> tuple[str, ...]:
        always = ("tokens", "entropy", "clip_low", "clip_high", "log_ratio_bounded", "kl_old")
        return (*always, "kl_reference") if self.needs_reference else always

    def __call__(
        self, tokens: Tokens, logprobs_N: Tensor, entropies_N: Tensor, ref_logprobs_N: Tensor | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss, and diagnostics as sums over trainable tokens (divide by ``tokens``)."""
        low, high = self.options.clip
        live = tokens.weights > 0
        # masked at the source: a token that was not sampled has NaN here, and 0 times NaN poisons loss and gradient
        log_ratio = torch.where(live, logprobs_N - tokens.old_logprobs, 0.0)
        bounded = log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
        ratio = bounded.exp()
        gain = torch.minimum(ratio * tokens.advantages, ratio.clamp(1 - low, 1 + high) * tokens.advantages)
        per_token = -gain
        sums = {
            "tokens": live.sum(),
            "entropy": _sum(entropies_N, live),
            "clip_low": ((ratio < 1 - low) & (tokens.advantages < 0) & live).sum(),
            "clip_high": ((ratio > 1 + high) & (tokens.advantages > 0) & live).sum(),
            "log_ratio_bounded": ((log_ratio != bounded) & live).sum(),
            "kl_old": _sum(ratio - 1 - bounded, live),  # k3 against the sampling policy
        }
        if ref_logprobs_N is not None:
            difference = torch.where(live, ref_logprobs_N - logprobs_N, 0.0).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
            kl = difference.exp() - difference - 1
            per_token = per_token + self.options.kl * kl
            sums["kl_reference"] = _sum(kl, live)
        return (tokens.weights * per_token).sum(), {name: value.detach() for name, value in sums.items()}


class ImitationLoss:
    r"""Weighted negative log-likelihood :math:`-\sum_t w_t A_t \log \pi_t`: supervised training, where A is 1."""

    needs_reference = False
    diagnostics = ("tokens", "entropy", "surprise")

    def __call__(
        self, tokens: Tokens, logprobs_N: Tensor, entropies_N: Tensor, ref_logprobs_N: Tensor | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        live = tokens.weights > 0
        sums = {"tokens": live.sum(), "entropy": _sum(entropies_N, live), "surprise": -_sum(logprobs_N, live)}
        loss = -(tokens.weights * tokens.advantages * logprobs_N).sum()
        return loss, {name: value.detach() for name, value in sums.items()}


def _sum(values: Tensor, live: Tensor) -> Tensor:
    return torch.where(live, values, 0.0).sum()
