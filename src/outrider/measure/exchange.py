"""Fits an exponential law to performance as a function of policy entropy. The law predicts a ceiling for
performance."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from outrider.arrays import Floats
from outrider.measure.blocks import NONE, IntervalBounds, bounds, noise

FEWEST = 8
"""Minimum number of points for estimating the two parameters and the autocorrelation of the residuals."""


@dataclass(frozen=True, slots=True, eq=False)
class Exchange:
    """A fit of the law R = -a exp(H) + b between performance R and entropy H.

    Attributes:
        excluded: number of pairs with a NaN or infinite value.
        why_not: why a and b could not be estimated (all numbers are then NaN); ``""`` if a and b were estimated.
        a, b: the two parameters, with intervals.
        ceiling: b - a, which is the performance R at zero entropy *if* the law holds down to H = 0.
        explained: coefficient of determination of the fit; NaN if the performance is constant.
        lowest, highest: range of observed entropies in nats; the ceiling extrapolates from ``lowest`` to 0.
        draws_B2: the fitted a and b of each resample.
    """

    excluded: int
    why_not: str = ""
    a: IntervalBounds = NONE
    b: IntervalBounds = NONE
    ceiling: IntervalBounds = NONE
    explained: float = np.nan
    lowest: float = np.nan
    highest: float = np.nan
    draws_B2: Floats = field(default_factory=lambda: np.empty((0, 2)))

    @property
    def identified(self) -> bool:
        """Whether the parameters ``a`` and ``b`` could be estimated."""
        return not self.why_not

    @property
    def holds(self) -> bool:
        """Whether the interval of the parameter ``a`` is above 0. Performance then rises as entropy falls."""
        return self.a.low > 0

    def at(self, entropy: float) -> IntervalBounds:
        """Return the predicted R at an entropy in nats. The interval is for the curve, without the noise of single
        steps.

        >>> entropies = np.linspace(0.1, 1, 20)
        >>> round(fit_exchange(entropies, 0.9 - 0.2 * np.exp(entropies)).at(0.0).value, 6)
        0.7
        """
        draws_B = self.draws_B2[:, 1] - self.draws_B2[:, 0] * np.exp(entropy)
        return bounds(self.b.value - self.a.value * np.exp(entropy), draws_B)


def fit_exchange(entropies_N: ArrayLike, rewards_N: ArrayLike, resamples: int = 1000, seed: int = 0) -> Exchange:
    r"""Fit :math:`R = -a\, e^{H} + b` by least squares over the steps of a run, in order.

    With :math:`u = e^H` the law is a straight line, so the solution is in closed form. Neighbouring steps have nearly
    equal policies, so their residuals are correlated. The residuals are therefore resampled in blocks and added to the
    fitted curve.

    .. math:: R^{(b)}_t = \hat R_t + e^{(b)}_t

    The law is fitted to every resample. The intervals contain the middle 95 % of these fits. The intervals account for
    noise around the curve. They do not account for the run's seed, or for a failure of the law outside the observed
    entropies. The curve fits well in every run in which reward and entropy change steadily, so a high value of
    ``explained`` is not evidence for the law.

    Degenerate cases: pairs with a NaN or infinite value are excluded and counted. The parameters cannot be estimated
    from fewer than :data:`FEWEST` pairs, or if all entropies are (nearly) equal. For ``resamples = 0``, no intervals
    are computed.

    Raises:
        ValueError: the two arrays differ in length.

    Source: Cui et al. 2025, arXiv 2505.22617; STILL report, arXiv 2508.07534, section 3.1. Block bootstrap: Künsch
    1989, Annals of Statistics 17.

    >>> entropies = np.linspace(1.0, 0.2, 30)
    >>> found = fit_exchange(entropies, 0.9 - 0.2 * np.exp(entropies), resamples=0)
    >>> round(found.a.value, 6), round(found.b.value, 6), round(found.ceiling.value, 6)
    (0.2, 0.9, 0.7)
    """
    entropies, rewards = np.asarray(entropies_N, dtype=np.float64), np.asarray(rewards_N, dtype=np.float64)
    if entropies.shape != rewards.shape:
        raise ValueError(f"entropies and rewards must have equal lengths, not {len(entropies)} and {len(rewards)}")
    known_N = np.isfinite(entropies) & np.isfinite(rewards)
    excluded = int((~known_N).sum())
    entropies, rewards = entropies[known_N], rewards[known_N]
    if why_not := _why_not(entropies):
        return Exchange(excluded, why_not)
    scaled_N = np.exp(entropies)
    a, b = _line(scaled_N, rewards[None])[0]
    residuals_N = rewards - (b - a * scaled_N)
    drawn_BN = (b - a * scaled_N) + noise(residuals_N, 2, resamples, seed)
    draws_B2 = _line(scaled_N, drawn_BN)
    total = float(np.square(rewards - rewards.mean()).sum())
    return Exchange(
        excluded=excluded,
        a=bounds(a, draws_B2[:, 0]),
        b=bounds(b, draws_B2[:, 1]),
        ceiling=bounds(b - a, draws_B2[:, 1] - draws_B2[:, 0]),
        explained=1 - float(residuals_N @ residuals_N) / total if total > 0 else np.nan,
        lowest=float(entropies.min()),
        highest=float(entropies.max()),
        draws_B2=draws_B2,
    )


def _line(scaled_N: Floats, rewards_BN: Floats) -> Floats:
    """Return the least-squares a and b of the law for each row of ``rewards_BN``, in an array of shape ``[B, 2]``."""
    centred_N = scaled_N - scaled_N.mean()
    a_B = -(rewards_BN @ centred_N) / (centred_N @ centred_N)
    return np.stack([a_B, rewards_BN.mean(axis=1) + a_B * scaled_N.mean()], axis=1)


def _why_not(entropies_N: Floats) -> str:
    if len(entropies_N) < FEWEST:
        return f"{len(entropies_N)} points, {FEWEST} needed"
    spread = float(np.ptp(entropies_N))
    if spread < 1e-3:
        return f"entropy hardly changes: it spans {spread:.2g} nats"
    return ""
