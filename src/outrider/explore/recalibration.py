"""Recalibration: pass rates that are believed too low, too high or too alike, put right by what came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log
from typing import Any

import numpy as np

from outrider.arrays import Floats
from outrider.explore.rate import Rate

KEPT = 0.95  # of the weight of a step, the share that still counts a step later
ANCHOR = 20.0  # as firmly is the map held to leaving beliefs alone as by 80 rollouts at a pass rate of one half
STRIDE = 1.0  # logits; over more, the information that a Newton step goes by no longer holds

_ALONE = np.array([1.0, 0.0])


@dataclass
class Recalibration:
    r"""The map :math:`\mathrm{logit}(p) \to \mathrm{slope} \cdot \mathrm{logit}(p) + \mathrm{shift}` of the mean of a
    belief, learnt as steps go by.

    That is Platt scaling, by logistic regression of successes on believed means: with weights that fade by ``KEPT`` a
    step and a ridge of ``ANCHOR`` around slope 1 and shift 0, one Newton step for every step of the run, which is cut
    short where it would move a belief by more than ``STRIDE``: beliefs that are sure of failures have next to no
    information, and where successes come all the same a whole step would overshoot and turn their order round. The n
    rollouts of a problem share its pass rate, so they weigh as :math:`n / (1 + (n - 1) / (a + b + 1))` of their own.
    How sure a belief is, a + b, stays. What is found is drawn back as far as noise could have made it, by
    :math:`\max(0, 1 - 2 / \chi^2)` with the information's :math:`\chi^2` of its distance from leaving beliefs alone.
    Degenerate cases: before anything was learnt, and where nothing comes, beliefs stay; where all that came contradicts
    what is believed, step after step, the slope may come near 0, and problems are hardly told apart until it is back.

    On three runs the likelihood of what came rises by 0.003 to 0.009 nats a rollout, and classes of believed pass rates
    whose successes were seven to ten standard deviations off come within four (docs/log.md, 2026-11-23).

    >>> Recalibration().of(Rate(1.0, 3.0))
    Rate(a=1.0, b=3.0)
    """

    slope: float = 1.0
    shift: float = 0.0
    taken: float = field(default=1.0, compare=False)  # of the last Newton step, the share that was not clipped
    _found: Floats = field(default_factory=_ALONE.copy, compare=False)  # slope and shift before they are drawn back
    _information: Floats = field(default_factory=lambda: np.zeros((2, 2)), compare=False)  # of the two

    def of(self, rate: Rate) -> Rate:
        """What is believed where ``rate`` would be."""
        if (self.slope, self.shift) == (1.0, 0.0):
            return rate
        mean = _mapped(rate, self.slope, self.shift)
        return Rate(mean * (rate.a + rate.b), (1 - mean) * (rate.a + rate.b))

    def learn(self, told: Sequence[tuple[Rate, int, int]]) -> None:
        """From beliefs before they were recalibrated, with the successes and failures that came."""
        new, gradient = np.zeros((2, 2)), np.zeros(2)
        places = [np.array([log(rate.a / rate.b), 1.0]) for rate, *_ in told]
        for at, (rate, successes, failures) in zip(places, told, strict=True):
            n, mean = successes + failures, _mapped(rate, *self._found.tolist())
            weight = n / (1 + (n - 1) / (rate.a + rate.b + 1))
            new += weight * mean * (1 - mean) * np.outer(at, at)
            gradient += weight * (successes / n - mean) * at
        self._information = KEPT * self._information + new
        # where the past was at its optimum, its gradient is the anchor's pull, of which a share has faded; what is left
        # of a step that was cut short is found again from what comes next
        gradient -= (1 - KEPT) * ANCHOR * (self._found - _ALONE)
        step = np.linalg.solve(self._information + ANCHOR * np.eye(2), gradient)
        farthest = max((abs(float(at @ step)) for at in places), default=0.0)
        self.taken = 1 / max(1.0, farthest / STRIDE)
        self._found = self._found + self.taken * step
        away = self._found - _ALONE
        evidence = float(away @ self._information @ away)  # about chi-squared, with a mean of 2 where beliefs are right
        self.slope, self.shift = (_ALONE + max(0.0, 1 - 2 / evidence if evidence else 0.0) * away).tolist()

    def state_dict(self) -> dict[str, Any]:
        found, information = self._found.tolist(), self._information.tolist()
        return {"slope": self.slope, "shift": self.shift, "found": found, "information": information}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.slope, self.shift = state["slope"], state["shift"]
        self._found = np.array(state["found"], np.float64)
        self._information = np.array(state["information"], np.float64)


def _mapped(rate: Rate, slope: float, shift: float) -> float:
    return 1 / (1 + exp(-slope * log(rate.a / rate.b) - shift))
