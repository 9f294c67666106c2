"""Clip-Cov: removes the gradient of a few tokens whose updates would lower entropy the most. Uses only NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from pydantic import Field, model_validator

from outrider.objective.selection import Selected, Selection, covariances, least_of_highest, trainable
from outrider.options import refuse_empty_range
from outrider.record.identity import identity_seed, uniforms
from outrider.record.row import WeightedRow


class ClipCov(Selection):
    """Removes the policy gradient of a few randomly drawn tokens whose log-probability and advantage covary strongly.

    Tokens are drawn at random among those whose covariance (:func:`outrider.objective.selection.covariances`) is
    between ``low`` and ``high``. The number of drawn tokens is ``share`` times the number of all trainable tokens. The
    draw is seeded by rollout and position, so it is the same in every epoch. If fewer tokens are in the range, all of
    them are drawn. The authors' code never draws tokens whose ratio the surrogate clips; this component also draws such
    tokens.

    Source: arXiv 2505.22617, equations (11) and (12), with a share of 2e-4 and covariances from 1 to 5.
    """

    leaves_out: ClassVar[bool] = True

    share: float = Field(
        2e-4,
        gt=0,
        le=1,
        description="fraction of the trainable tokens in an optimizer batch whose policy gradient is removed",
    )
    low: float = Field(
        1.0,
        description=(
            "minimum covariance between log-probability and advantage of the tokens whose policy gradient may be "
            "removed"
        ),
    )
    high: float = Field(
        5.0,
        description=(
            "maximum covariance between log-probability and advantage of the tokens whose policy gradient may be "
            "removed"
        ),
    )

    @model_validator(mode="after")
    def _some_fit(self) -> ClipCov:
        refuse_empty_range(self.low, self.high)
        return self

    def select(self, rows: Sequence[WeightedRow]) -> list[Selected]:
        draws = []
        for row, cov_N in zip(rows, covariances(rows), strict=True):
            # seeded per row: the draw depends neither on the order of rows nor on the split into batches
            drawn_N = uniforms(np.array([identity_seed("clip_cov", row.seed)]), np.arange(len(cov_N)))[0]
            # tokens outside the range get -1, below every uniform number, so they are never chosen
            draws.append(np.where((cov_N >= self.low) & (cov_N <= self.high), drawn_N, -1.0))
        # the threshold is 0 if the range has fewer tokens than the share: all of them are chosen
        threshold = max(least_of_highest(trainable(rows, draws), self.share), 0.0)
        return [Selected(keeps_N=draws_N < threshold) for draws_N in draws]
