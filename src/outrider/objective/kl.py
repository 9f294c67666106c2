r"""Estimators of the KL to a reference model, each with the gradient that it has as a loss.

With :math:`d = \log\pi_\mathrm{ref}(y_t) - \log\pi(y_t)` of a sampled token:

========  ===================  ====================================  ====================================
name      value                mean of the value                     mean of the gradient
========  ===================  ====================================  ====================================
``k1``    :math:`-d`           :math:`KL(\pi \| \pi_\mathrm{ref})`   0: it pulls nowhere and adds noise
``k2``    :math:`d^2 / 2`      near that KL where both are near      of :math:`KL(\pi \| \pi_\mathrm{ref})`
``k3``    :math:`e^d - d - 1`  :math:`KL(\pi \| \pi_\mathrm{ref})`   of :math:`KL(\pi_\mathrm{ref} \| \pi)`
========  ===================  ====================================  ====================================

per token, given what stands before it: what a token does to the KL of those after it has no part in the gradient, so
for responses of several tokens none of these gradients is that of the KL between whole responses. The samples are the
policy's own: no estimator here is weighted by the ratio, so after the first update on a batch all are off by how far
the policy has moved. An unbiased value says nothing about its gradient, because the samples depend on the policy too.
``k2`` pulls towards a mode of the reference, ``k3`` towards covering it; near the reference they agree. k3 grows
exponentially where the policy has all but dropped a token: :math:`d` is bounded to ±20, and passes no gradient beyond.

Sources: Schulman, "Approximating KL divergence", joschu.net/blog/kl-approx.html; k3 in GRPO, arXiv 2402.03300, Eq. 4;
the gradients, arXiv 2506.09477.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from outrider.options import Options
from outrider.record.row import TrainingRow

if TYPE_CHECKING:
    from torch import Tensor

MAX_LOG_RATIO = 20.0


class KlEstimator(Options):
    """What the KL to a reference is estimated by, and on which rows it acts. Fields are the recipe's options."""

    def value(self, difference: Tensor) -> Tensor:
        """Of each token, from :math:`d`."""
        raise NotImplementedError

    def acts_on(self, rows: Sequence[TrainingRow]) -> list[bool]:
        """For each row of an optimizer batch whether the KL acts on it."""
        return [True] * len(rows)


class K1(KlEstimator):
    """:math:`-d`."""

    def value(self, difference: Tensor) -> Tensor:
        return -difference


class K2(KlEstimator):
    """:math:`d^2 / 2`."""

    def value(self, difference: Tensor) -> Tensor:
        return difference.square() / 2


class K3(KlEstimator):
    """:math:`e^d - d - 1`."""

    def value(self, difference: Tensor) -> Tensor:
        return difference.exp() - difference - 1


def moved(log_ratio_N: Tensor, old_logprobs_N: Tensor) -> Tensor:
    r""":math:`|\log\pi - \log\pi_\mathrm{old}|`, and 0 without a gradient where that is rounding.

    Two passes of one policy over other batches differ by a few units in the last place, and the sign of that noise
    would be a whole gradient. Within 64 units of the larger of 1 and the log-probability nothing has moved.

    >>> import torch
    >>> old = torch.tensor([-2.0, -2.0])
    >>> moved(torch.tensor([1e-6, 0.5]), old).tolist()
    [0.0, 0.5]
    """
    import torch

    rounding_N = 64 * torch.finfo(log_ratio_N.dtype).eps * old_logprobs_N.abs().clamp_min(1.0)
    return torch.where(log_ratio_N.abs() > rounding_N, log_ratio_N.abs(), 0.0)


def log_ratio_of(above_N: Tensor, below_N: Tensor, live_N: Tensor) -> tuple[Tensor, Tensor]:
    """``above - below`` of log-probabilities, as it is and bounded to ±20; 0 where not ``live``.

    Masked at the source: a token that was not sampled has NaN here, and 0 times NaN poisons loss and gradient.
    """
    import torch

    log_ratio = torch.where(live_N, above_N - below_N, 0.0)
    return log_ratio, log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
