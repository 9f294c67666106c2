r"""Estimators of the KL to a reference model, and their gradients when used as a loss.

The estimators depend on :math:`d = \log\pi_\mathrm{ref}(y_t) - \log\pi(y_t)` of a sampled token:

========  ===================  ====================================  ====================================
name      value                mean of the value                     mean of the gradient
========  ===================  ====================================  ====================================
``k1``    :math:`-d`           :math:`KL(\pi \| \pi_\mathrm{ref})`   0: it only adds noise
``k2``    :math:`d^2 / 2`      close to that KL near the reference   of :math:`KL(\pi \| \pi_\mathrm{ref})`
``k3``    :math:`e^d - d - 1`  :math:`KL(\pi \| \pi_\mathrm{ref})`   of :math:`KL(\pi_\mathrm{ref} \| \pi)`
========  ===================  ====================================  ====================================

All KLs are per token, given the preceding tokens. A token's effect on the KL of later tokens is not part of the
gradient. So if responses have several tokens, none of these gradients is the gradient of the KL between whole
responses. The estimators assume samples from the current policy and are not weighted by the importance ratio. So after
the first update on a batch the estimators are biased, and the bias grows as the policy moves. Even an unbiased
estimator may have a biased gradient, because the samples also depend on the policy. ``k2`` pulls the policy towards a
mode of the reference. ``k3`` pushes the policy to cover the whole reference. Near the reference, both have the same
gradient. ``k3`` grows exponentially for a token whose probability under the policy is almost 0, so :math:`d` is bounded
to ±20, with no gradient beyond.

Sources: Schulman, "Approximating KL divergence", joschu.net/blog/kl-approx.html; k3 in GRPO, arXiv 2402.03300, Eq. 4;
the gradients, arXiv 2506.09477.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from outrider.options import Options
from outrider.record.row import WeightedRow

if TYPE_CHECKING:
    from torch import Tensor

MAX_LOG_RATIO = 20.0


class KlEstimator(Options):
    """An estimator of the KL to a reference policy. The estimator also decides to which rows the KL term applies.
    Fields are the recipe's options."""

    def value(self, difference: Tensor) -> Tensor:
        """Return the KL estimate of each token from :math:`d`."""
        raise NotImplementedError

    def acts_on(self, rows: Sequence[WeightedRow]) -> list[bool]:
        """Return, for each row of an optimizer batch, whether the KL term applies to the row."""
        return [True] * len(rows)


class K1(KlEstimator):
    """The estimator :math:`-d`."""

    def value(self, difference: Tensor) -> Tensor:
        return -difference


class K2(KlEstimator):
    """The estimator :math:`d^2 / 2`."""

    def value(self, difference: Tensor) -> Tensor:
        return difference.square() / 2


class K3(KlEstimator):
    """The estimator :math:`e^d - d - 1`."""

    def value(self, difference: Tensor) -> Tensor:
        return difference.exp() - difference - 1


def moved(log_ratio_N: Tensor, old_logprobs_N: Tensor) -> Tensor:
    r"""Return :math:`|\log\pi - \log\pi_\mathrm{old}|`; differences at rounding level become 0, without a gradient.

    >>> import torch
    >>> old = torch.tensor([-2.0, -2.0])
    >>> moved(torch.tensor([1e-6, 0.5]), old).tolist()
    [0.0, 0.5]
    """
    import torch

    # Forward passes of the same policy over different batches differ by a few units in the last place. The gradient of
    # an absolute value is its sign, so this noise would get a full gradient.
    rounding_N = 64 * torch.finfo(log_ratio_N.dtype).eps * old_logprobs_N.abs().clamp_min(1.0)
    return torch.where(log_ratio_N.abs() > rounding_N, log_ratio_N.abs(), 0.0)


def log_ratio_of(above_N: Tensor, below_N: Tensor, live_N: Tensor) -> tuple[Tensor, Tensor]:
    """Return the log ratio ``above_N - below_N`` twice: unbounded, and bounded to ±20. Both are 0 for tokens that
    ``live_N`` marks as False."""
    import torch

    # masked instead of weighted by 0: a token that was not sampled may have NaN, and 0 times NaN is NaN
    log_ratio = torch.where(live_N, above_N - below_N, 0.0)
    return log_ratio, log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
