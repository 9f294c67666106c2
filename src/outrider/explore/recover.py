"""The recoverability of a failed rollout's prefix: the probability that a new continuation of the prefix succeeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from outrider.arrays import Floats

_COLD = 10  # with at most this many outcomes nothing is fitted


@dataclass
class Recoverability:
    r"""Online logistic regression of recovery (a successful continuation) on the relative depth of the branch point.

    .. math:: R(r) = \sigma(w r + b), \qquad r = t / T \in (0, 1)

    The estimator stores the last ``memory`` outcomes. Each call of ``learn`` refits scikit-learn's
    ``LogisticRegression`` with its defaults (lbfgs, L2 with C = 1) to all stored outcomes. With at most 10 outcomes, or
    only recoveries, or no recovery, :math:`R(r) = 1`.

    Source: DEEP-GRPO (arXiv 2602.14169) Eq. 3 and appendix C.3. DEEP-GRPO's paper fits "periodically" and describes no
    cold start; its released code fits each time that it chooses branch points, separately in each process. Our choice:
    the model is fitted once per step, and all processes share this fit.

    >>> r = Recoverability(memory=100)
    >>> r.learn([0.1] * 6 + [0.9] * 6, [True] * 6 + [False] * 6)
    >>> bool(r.w < 0), r.log_probability(np.array([0.1, 0.9])).round(2).tolist()
    (True, [-0.42, -1.07])
    """

    memory: int
    ratios: list[float] = field(default_factory=list)
    recovered: list[bool] = field(default_factory=list)
    w: float | None = None
    b: float | None = None

    def log_probability(self, ratios: Floats) -> Floats:
        """Return the log-probability of recovery, log R, at each relative depth, as float64. Before the first fit all
        values are 0.
        """
        if self.w is None or self.b is None:
            return np.zeros(len(ratios))
        return -np.logaddexp(0.0, -(self.w * ratios + self.b))

    def learn(self, ratios: Sequence[float], recovered: Sequence[bool]) -> None:
        """Add outcomes, remove the oldest outcomes beyond ``memory``, and refit."""
        self.ratios = [*self.ratios, *ratios][-self.memory :]
        self.recovered = [*self.recovered, *recovered][-self.memory :]
        self.w = self.b = None
        if len(self.ratios) > _COLD and len(set(self.recovered)) == 2:
            # the import takes a second, and only this estimator needs it
            from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

            fit = LogisticRegression().fit(np.array(self.ratios)[:, None], np.array(self.recovered))
            self.w, self.b = float(fit.coef_[0, 0]), float(fit.intercept_[0])

    def state_dict(self) -> dict[str, Any]:
        return {"ratios": self.ratios, "recovered": self.recovered, "w": self.w, "b": self.b}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.ratios, self.recovered = list(state["ratios"]), list(state["recovered"])
        self.w, self.b = state["w"], state["b"]
