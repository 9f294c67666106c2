r"""What a Tinker service does with a gradient and with the parameters of AdamW, found by trying.

Services differ, and say nothing of what they leave out: one sums the losses of tokens and rows, another takes the mean
over each row's tokens and over rows; one ignores the clipping of gradients, another everything but the learning rate.
So a few steps are made on an adapter of their own, which is then thrown away, and the log-probability of one token is
watched. The decay of weights is not tried: SkyRL's JAX backend decays the adapters of all its users when one asks it.

With an :math:`\epsilon` far above every gradient AdamW is a step of size :math:`\eta / \epsilon` along the
gradient, so that the token moves in proportion to what the service made of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from outrider.errors import UserError
from outrider.model.tinker_service import Adam, ServiceRow, TinkerService

_LENGTH, _EPSILON = 8, 1e9
_IDS = np.arange(3, 3 + _LENGTH, dtype=np.int32)  # tokens that every vocabulary has
_LEAST, _MOST = 1e-2, 0.3  # of a movement: far above rounding, and small enough to be in proportion


@dataclass(frozen=True)
class Abilities:
    """What a service does; each but the first two is whether it does what it is told.

    Attributes:
        row_mean: whether the loss of a row is divided by its length, the prompt included.
        batch_mean: whether losses are divided by the number of rows.
        epsilon: of AdamW. Where it is ignored, the betas may be too.
        clipping: of the gradient's norm.
    """

    row_mean: bool
    batch_mean: bool
    epsilon: bool = True
    clipping: bool = True

    def factor(self, length: int, rows: int) -> float:
        """By which an advantage is multiplied, so that the gradient is that of a sum over tokens and rows.

        >>> Abilities(row_mean=True, batch_mean=True).factor(length=8, rows=3)
        24.0
        """
        return float((length if self.row_mean else 1) * (rows if self.batch_mean else 1))


def abilities_of(service: TinkerService) -> Abilities:
    """Try a service out.

    Raises:
        UserError: its gradients agree with none of the known conventions.
        EngineLostError: it fails.
    """
    probe = _Probe(service)
    # a step that cannot move anything, unless epsilon is ignored
    if abs(probe.moved(rate=1e-3)) > max(1e-6, 10 * probe.jitter):
        return Abilities(row_mean=False, batch_mean=False, epsilon=False, clipping=False)
    rate = probe.fitting_rate()
    one = probe.moved(rate)
    twice = probe.moved(rate, calls=2) / one
    together = probe.moved(rate, rows=2) / one
    if not abs(together / twice - 1) < 0.3:
        raise UserError(
            f"the Tinker service moves a token {twice:.2g} times as far for two rows in two requests, and "
            f"{together:.2g} times for two in one: what it divides by depends on how an update is cut, so nothing here "
            "can train there"
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
        "losses: nothing here knows how to train there"
    )


class _Probe:
    """One token on an adapter of its own."""

    def __init__(self, service: TinkerService) -> None:
        self._service, self._trainer = service, service.new_adapter()
        seen = [self._logprob() for _ in range(4)]
        # where kernels depend on what else is computed, no two answers are the same
        self.jitter = max(seen) - min(seen)
        self._least = max(_LEAST, 20 * self.jitter)
        if self._least > _MOST / 2:
            raise UserError(
                f"the Tinker service gives one token log-probabilities {self.jitter:.2g} apart in two calls: "
                "what it does with gradients cannot be seen in them"
            )
        self._last = seen[-1]

    def moved(self, rate: float, calls: int = 1, rows: int = 1, length: int = _LENGTH, clip: float = 0.0) -> float:
        """How far the token goes in a step, from so many calls of so many equal rows."""
        for _ in range(calls):
            self._service.backward([_row(length, 1.0)] * rows, "importance_sampling", trainer=self._trainer)
        self._service.step(Adam(rate, beta1=0.0, beta2=0.0, eps=_EPSILON, grad_clip_norm=clip), self._trainer)
        before, self._last = self._last, self._logprob()
        return self._last - before

    def fitting_rate(self) -> float:
        """A learning rate that moves the token visibly."""
        rate = 1e-5 * _EPSILON
        for _ in range(9):
            if abs(moved := self.moved(rate)) >= self._least:
                return rate * self._least / abs(moved)  # the least: further away nothing is in proportion
            rate *= 3 if abs(moved) > self._least / 10 else 10
        raise UserError("the Tinker service did not change a token's likelihood in nine steps: it does not train")

    def _logprob(self) -> float:
        [logprobs] = self._service.logprobs([_row(_LENGTH, 0.0)], self._trainer)
        return float(logprobs[-1])


def _row(length: int, advantage: float) -> ServiceRow:
    """The watched token is the same in a longer row, whose other tokens are behind it."""
    ids = np.resize(_IDS, length)
    advantages = np.zeros(length - 1)
    advantages[_LENGTH - 2] = advantage
    # old log-probabilities of 0 would scale the ratio by the probability itself: in proportion all the same
    return ServiceRow(ids, np.zeros(length - 1), advantages)
