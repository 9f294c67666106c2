"""A beta distribution of a pass rate."""

from __future__ import annotations

from math import lgamma
from typing import NamedTuple


class Rate(NamedTuple):
    """The distribution ``Beta(a, b)`` of a pass rate."""

    a: float
    b: float

    @property
    def mean(self) -> float:
        return self.a / (self.a + self.b)

    def moment(self, i: int, j: int) -> float:
        """Return the expectation of ``p^i (1 - p)^j``.

        >>> Rate(1.0, 1.0).moment(1, 0), Rate(2.0, 2.0).moment(1, 1)
        (0.5, 0.2)
        """
        result = 1.0
        for step in range(i):
            result *= (self.a + step) / (self.a + self.b + step)
        for step in range(j):
            result *= (self.b + step) / (self.a + self.b + i + step)
        return result

    def log_chance(self, successes: int, failures: int) -> float:
        """Return the log-probability of the outcomes in one particular order: the beta-binomial without its binomial
        coefficient."""
        after = _log_beta(self.a + successes, self.b + failures)
        return after - _log_beta(self.a, self.b)


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)
