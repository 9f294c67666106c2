"""A policy over a handful of responses, small enough that every group it can draw is looked at."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrider.credit import Baseline, Members

Value = Callable[[NDArray], complex]


class Bandit(NamedTuple):
    """A softmax over responses of one token. A success has the reward ``best`` or more."""

    logits: Sequence[float]
    rewards: Sequence[float]
    best: float = 1.0

    def probabilities(self, logits: NDArray | None = None) -> NDArray:
        weights = np.exp(np.array(self.logits) if logits is None else logits)
        return weights / weights.sum()

    def mean(self, baseline: Baseline, n: int, greedy: bool = False) -> NDArray:
        """The mean over all groups of n draws of the mean over their members of A_i times the gradient of log pi."""
        pi, rewards = self.probabilities(), np.array(self.rewards)
        top = [int(pi.argmax())] if greedy else []
        total = np.zeros(len(pi))
        for draws in itertools.product(range(len(pi)), repeat=n):
            rewards_G = rewards[[*draws, *top]]
            flags_G = np.arange(n + len(top)) >= n
            more = {"greedy_G": flags_G} if greedy else {}
            members = Members(rewards_G, rewards_G >= self.best, np.ones(len(rewards_G), np.int64), **more)
            scores = np.eye(len(pi))[list(draws)] - pi
            total += pi[list(draws)].prod() * (baseline.advantages(members)[:n] @ scores) / n
        return total

    def gradient(self, value: Value) -> NDArray:
        """Of a function of the probabilities, with respect to the logits: a complex step, exact to rounding."""
        steps = np.eye(len(self.logits)) * 1e-30j
        return np.array([value(self.probabilities(np.array(self.logits) + step)).imag / 1e-30 for step in steps])

    def expected(self, pi: NDArray) -> complex:
        """The mean reward."""
        return pi @ np.array(self.rewards)

    def best_of(self, k: int) -> Value:
        """The expected best reward of k draws; with rewards of 0 and 1, pass@k."""
        order = np.argsort(self.rewards)

        def value(pi: NDArray) -> complex:
            below = np.concatenate([[0.0], np.cumsum(pi[order])]) ** k
            return np.diff(below) @ np.array(self.rewards)[order]

        return value


BINARY = Bandit([0.3, -0.7, 0.1, -1.2], [0.0, 1.0, 0.0, 1.0])
RARE = Bandit([1.0, 0.5, -1.5], [0.0, 0.0, 1.0])
GRADED = Bandit([0.2, -0.4, 0.9], [0.25, 1.0, -0.5])
