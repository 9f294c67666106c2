"""Recalibration of predicted pass rates by Platt scaling, online."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log
from typing import Any

import numpy as np

from outrider.arrays import Floats
from outrider.explore.rate import Rate

DISCOUNT = 0.95
"""Discount of past evidence per step."""
RIDGE = 20.0
"""Ridge penalty towards the identity map; as strong as 80 rollouts at a pass rate of one half."""
MAX_MOVE = 1.0
"""Maximum change of a predicted logit in one step; beyond it the information of a Newton step does not hold."""

_IDENTITY = np.array([1.0, 0.0])


@dataclass
class Recalibration:
    r"""The map :math:`\mathrm{logit}(p) \to \mathrm{slope} \cdot \mathrm{logit}(p) + \mathrm{shift}` of the mean of a
    predicted pass rate, learned online.

    Platt scaling: logistic regression of successes on predicted means, with evidence discounted by ``DISCOUNT`` per
    step and a ridge penalty ``RIDGE`` towards slope 1 and shift 0. Each training step makes one Newton step, shortened
    where it would move a prediction by more than ``MAX_MOVE``: near-certain predictions of failure carry almost no
    information, and when successes appear, a full step would overshoot and reverse their order. The n rollouts of a
    problem share its pass rate, so they weigh :math:`n / (1 + (n - 1) / (a + b + 1))` independent ones. The
    concentration a + b stays. The estimate is shrunk towards the identity by :math:`\max(0, 1 - 2 / \chi^2)`, with
    :math:`\chi^2` the information-weighted squared distance from it, so that noise alone hardly moves predictions.
    Degenerate cases: without evidence predictions stay; where outcomes contradict the predictions for many steps, the
    slope may approach 0, and predictions hardly differ between problems until it recovers.

    On three runs the log-likelihood rises by 0.003 to 0.009 nats per rollout, and classes of predicted pass rates whose
    successes were seven to ten standard deviations off come within four (docs/log.md, 2026-11-23).

    >>> Recalibration().of(Rate(1.0, 3.0))
    Rate(a=1.0, b=3.0)
    """

    slope: float = 1.0
    shift: float = 0.0
    taken: float = field(default=1.0, compare=False)  # share of the last Newton step that was taken
    _found: Floats = field(default_factory=_IDENTITY.copy, compare=False)  # before shrinkage
    _information: Floats = field(default_factory=lambda: np.zeros((2, 2)), compare=False)  # of slope and shift

    def of(self, rate: Rate) -> Rate:
        """The recalibrated pass rate."""
        if (self.slope, self.shift) == (1.0, 0.0):
            return rate
        mean = _mapped(rate, self.slope, self.shift)
        return Rate(mean * (rate.a + rate.b), (1 - mean) * (rate.a + rate.b))

    def learn(self, evidence: Sequence[tuple[Rate, int, int]]) -> None:
        """Learn from predictions before recalibration, with observed successes and failures."""
        new, gradient = np.zeros((2, 2)), np.zeros(2)
        places = [np.array([log(rate.a / rate.b), 1.0]) for rate, *_ in evidence]
        for at, (rate, successes, failures) in zip(places, evidence, strict=True):
            n, mean = successes + failures, _mapped(rate, *self._found.tolist())
            weight = n / (1 + (n - 1) / (rate.a + rate.b + 1))
            new += weight * mean * (1 - mean) * np.outer(at, at)
            gradient += weight * (successes / n - mean) * at
        self._information = DISCOUNT * self._information + new
        # at the optimum of past evidence its gradient equals the ridge's, of which a share is discounted now; the rest
        # of a shortened step is made up for by later evidence
        gradient -= (1 - DISCOUNT) * RIDGE * (self._found - _IDENTITY)
        step = np.linalg.solve(self._information + RIDGE * np.eye(2), gradient)
        farthest = max((abs(float(at @ step)) for at in places), default=0.0)
        self.taken = 1 / max(1.0, farthest / MAX_MOVE)
        self._found = self._found + self.taken * step
        away = self._found - _IDENTITY
        chi_squared = float(away @ self._information @ away)  # mean 2 for calibrated predictions
        self.slope, self.shift = (_IDENTITY + max(0.0, 1 - 2 / chi_squared if chi_squared else 0.0) * away).tolist()

    def state_dict(self) -> dict[str, Any]:
        found, information = self._found.tolist(), self._information.tolist()
        return {"slope": self.slope, "shift": self.shift, "found": found, "information": information}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.slope, self.shift = state["slope"], state["shift"]
        self._found = np.array(state["found"], np.float64)
        self._information = np.array(state["information"], np.float64)


def _mapped(rate: Rate, slope: float, shift: float) -> float:
    return 1 / (1 + exp(-slope * log(rate.a / rate.b) - shift))
