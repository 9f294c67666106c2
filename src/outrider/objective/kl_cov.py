"""KL-Cov: penalises the distance from the old policy at tokens whose updates lower entropy the most. Uses only
NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from pydantic import Field

from outrider.objective.selection import Selected, Selection, covariances, least_of_highest, trainable
from outrider.record.row import WeightedRow


class KlCov(Selection):
    r"""Penalises the distance from the sampling policy at the tokens where log-probability and advantage covary most.

    The tokens with the highest covariance (:func:`outrider.objective.selection.covariances`) get the penalty
    :math:`\mathrm{coef}\, |\log\pi - \log\pi_\mathrm{old}|`, as in the authors' code, in addition to their policy
    gradient. The paper combines the penalty with the surrogate ``unclipped``. Only tokens with positive covariance are
    chosen, so if all advantages are equal, no token is chosen. In the first update of a step, :math:`\log\pi` and
    :math:`\log\pi_\mathrm{old}` differ only by rounding errors. Differences as small as float32 rounding errors count
    as 0, so they cause no penalty and no gradient (:func:`outrider.objective.kl.moved`). The rounding errors of
    bfloat16 matmuls are larger and do cause a penalty. The direction of the penalty's gradient then depends on the sign
    of the rounding error, as in the authors' code.

    Source: arXiv 2505.22617, equations (13) and (14), with coefficient 1 and a share of 2e-3 (7B model) or 2e-4 (32B
    model).
    """

    penalises: ClassVar[bool] = True

    share: float = Field(
        2e-3,
        gt=0,
        le=1,
        description=(
            "fraction of an optimizer batch's trainable tokens that get a KL penalty (those with the highest "
            "covariance); at least one token"
        ),
    )
    coef: float = Field(
        1.0, gt=0, description="coefficient of the KL penalty on the tokens with the highest covariance"
    )

    def select(self, rows: Sequence[WeightedRow]) -> list[Selected]:
        every = covariances(rows)
        threshold = least_of_highest(trainable(rows, every), self.share)
        chosen = [(cov_N >= threshold) & (cov_N > 0) for cov_N in every]
        return [Selected(penalties_N=np.where(chosen_N, self.coef, 0.0)) for chosen_N in chosen]
