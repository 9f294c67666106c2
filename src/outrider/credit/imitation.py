"""The baseline of rejection fine-tuning: advantage 1 for every response that has not been dropped."""

from __future__ import annotations

import numpy as np

from outrider.arrays import Floats
from outrider.credit.chain import Baseline
from outrider.credit.members import Members


class Imitation(Baseline):
    r"""Advantage 1 for every valid member: :math:`A_i = 1`.

    To imitate only some responses, drop the others with a recipe's exploration stage, such as ``sift`` or ``keep``.
    With the surrogate ``likelihood`` the loss is the supervised fine-tuning loss. If a shaper then sets a token's
    advantage to 0, the token still counts in the denominator of this loss. Rewards are ignored.

    Degenerate cases: a response that the verifier could not score gets 0; a single response, and responses with equal
    rewards, get 1.

    Source: rejection fine-tuning, STILL report, arXiv 2508.07534, section 4.4.1.

    >>> m = Members(np.array([1.0, 0.0, np.nan]), np.array([True, False, False]), np.array([5, 5, 5]))
    >>> Imitation().advantages(m).tolist()
    [1.0, 1.0, 0.0]
    """

    def advantages(self, members: Members) -> Floats:
        return members.valid_G.astype(np.float64)
