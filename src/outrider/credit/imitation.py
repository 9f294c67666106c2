"""Every response counts the same: what a stage has left in the step is imitated."""

from __future__ import annotations

import numpy as np

from outrider.arrays import Floats
from outrider.credit.chain import Baseline
from outrider.credit.members import Members


class Imitation(Baseline):
    r"""One for every member: :math:`A_i = 1`.

    Which responses are imitated is decided before, by stages that leave the others out (``sift``, ``keep``); with the
    surrogate ``likelihood`` the loss is then that of supervised fine-tuning (tokens that lose their credit stay in its
    denominator). Rewards are not read.

    Degenerate cases: a member that is not valid gets 0; one that is alone, and members with equal rewards, get 1.

    Source: rejection fine-tuning, STILL report, arXiv 2508.07534, section 4.4.1.

    >>> m = Members(np.array([1.0, 0.0, np.nan]), np.array([True, False, False]), np.array([5, 5, 5]))
    >>> Imitation().advantages(m).tolist()
    [1.0, 1.0, 0.0]
    """

    def advantages(self, members: Members) -> Floats:
        return members.valid_G.astype(np.float64)
