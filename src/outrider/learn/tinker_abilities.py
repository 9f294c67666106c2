r"""Probes how a Tinker service normalises gradients and which AdamW parameters it applies.

Services differ in ways that they do not document. One service sums the losses of tokens and rows, and another averages
over each row's tokens and over rows. One service ignores gradient clipping, and another ignores everything but the
learning rate. So the probe takes a few steps on a temporary adapter, and measures the log-probability of one token.
Weight decay is not probed: SkyRL's JAX backend decays the adapters of all its users when one user requests weight
decay.

With an :math:`\epsilon` far above every gradient, AdamW's update is the gradient times :math:`\eta / \epsilon`, so the
change of the token's log-probability is proportional to the gradient that the service computed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from outrider.errors import UserError
from outrider.model.tinker_service import Adam, ServiceRow, TinkerService

_LENGTH, _EPSILON = 8, 1e9
_IDS = np.arange(3, 3 + _LENGTH, dtype=np.int32)  # token ids that every vocabulary has
_LEAST, _MOST = 1e-2, 0.3  # bounds of a log-probability change: far above rounding, and small enough to be linear


@dataclass(frozen=True)
class Abilities:
    """The way in which a Tinker service normalises gradients and applies AdamW.

    Attributes:
        row_mean: whether the loss of a row is divided by its length, including the prompt.
        batch_mean: whether losses are divided by the number of rows.
        epsilon: whether the service applies AdamW's epsilon. If False, the service may ignore the betas too.
        clipping: whether the service clips the gradient norm.
    """

    row_mean: bool
    batch_mean: bool
    epsilon: bool = True
    clipping: bool = True

    def factor(self, length: int, rows: int) -> float:
        """Return the factor by which advantages must be multiplied, so that the service sums the losses of tokens and
        rows instead of averaging them.

        >>> Abilities(row_mean=True, batch_mean=True).factor(length=8, rows=3)
        24.0
        """
        return float((length if self.row_mean else 1) * (rows if self.batch_mean else 1))


def abilities_of(service: TinkerService) -> Abilities:
    """Probe how a service normalises gradients and which AdamW parameters it applies.

    Raises:
        UserError: the service's gradients match none of the known conventions.
        EngineLostError: the service fails.
    """
    probe = _Probe(service)
    # this step changes almost nothing unless the service ignores epsilon
    if abs(probe.moved(rate=1e-3)) > max(1e-6, 10 * probe.jitter):
        return Abilities(row_mean=False, batch_mean=False, epsilon=False, clipping=False)
    rate = probe.fitting_rate()
    one = probe.moved(rate)
    twice = probe.moved(rate, calls=2) / one
    together = probe.moved(rate, rows=2) / one
    if not abs(together / twice - 1) < 0.3:
        raise UserError(
            f"the Tinker service moves a token {twice:.2g} times as far for two rows in two requests, and "
            f"{together:.2g} times for two rows in one: its normalisation depends on how an update is split into "
            "requests, which Outrider does not support"
        )
    longer = probe.moved(rate, length=2 * _LENGTH) / one
    clipped = probe.moved(rate, clip=1e-6) / one
    return Abilities(
        row_mean=_nearest("a longer row", longer, {1.0: False, (_LENGTH - 1) / (2 * _LENGTH - 1): True}),
        batch_mean=_nearest("two rows", twice, {2.0: False, 1.0: True}),
        clipping=abs(clipped) < 0.1,
    )


def _nearest(what: str, found: float, meaning: dict[float, bool]) -> bool:
    for expected, means in meaning.items():
        if abs(found / expected - 1) < 0.3:
            return means
    raise UserError(
        f"the Tinker service moves a token {found:.2g} times as far for {what}, which is neither a sum nor a mean of "
        "losses: Outrider does not support this"
    )


class _Probe:
    """Measures the log-probability of one token on a temporary adapter."""

    def __init__(self, service: TinkerService) -> None:
        self._service, self._trainer = service, service.new_adapter()
        seen = [self._logprob() for _ in range(4)]
        # the measurements differ if the service's kernels depend on the batch
        self.jitter = max(seen) - min(seen)
        self._least = max(_LEAST, 20 * self.jitter)
        if self._least > _MOST / 2:
            raise UserError(
                f"the Tinker service gives one token log-probabilities {self.jitter:.2g} apart in two calls: "
                "too much noise to measure how the service scales gradients"
            )
        self._last = seen[-1]

    def moved(self, rate: float, calls: int = 1, rows: int = 1, length: int = _LENGTH, clip: float = 0.0) -> float:
        """Run one optimizer step, and return the change of the probed token's log-probability. Before the step,
        gradients are accumulated in ``calls`` calls, each with ``rows`` copies of one row.
        """
        for _ in range(calls):
            self._service.backward([_row(length, 1.0)] * rows, "importance_sampling", trainer=self._trainer)
        self._service.step(Adam(rate, beta1=0.0, beta2=0.0, eps=_EPSILON, grad_clip_norm=clip), self._trainer)
        before, self._last = self._last, self._logprob()
        return self._last - before

    def fitting_rate(self) -> float:
        """Return a learning rate with which one step changes the probed token's log-probability measurably."""
        rate = 1e-5 * _EPSILON
        for _ in range(9):
            if abs(moved := self.moved(rate)) >= self._least:
                return rate * self._least / abs(moved)  # the minimum, since larger changes are not linear
            rate *= 3 if abs(moved) > self._least / 10 else 10
        raise UserError("the Tinker service did not change a token's likelihood in nine steps: it does not train")

    def _logprob(self) -> float:
        [logprobs] = self._service.logprobs([_row(_LENGTH, 0.0)], self._trainer)
        return float(logprobs[-1])


def _row(length: int, advantage: float) -> ServiceRow:
    """Return a row of ``length`` tokens, in which only the probed token has an advantage."""
    ids = np.resize(_IDS, length)
    advantages = np.zeros(length - 1)
    advantages[_LENGTH - 2] = advantage
    # with old log-probabilities of 0 the ratio is the probability itself, so the change stays proportional to the
    # gradient
    return ServiceRow(ids, np.zeros(length - 1), advantages)
