"""DAPO's soft overlong punishment: a length penalty close to the response limit."""

from __future__ import annotations

import numpy as np
from pydantic import Field, model_validator

from outrider.arrays import Floats
from outrider.credit.chain import RewardShaper
from outrider.credit.members import Members


class Overlong(RewardShaper):
    r"""Subtracts a length penalty from the reward. The penalty grows linearly as a response approaches the length
    limit.

    .. math:: r_i' = r_i - \lambda\, \min\Big(1, \max\Big(0, \frac{L_i - (L_\max - L_\text{buffer})}{L_\text{buffer}}
              \Big)\Big)

    :math:`L_i` counts the trainable tokens of the response, including the end token and the prefix that a branch
    copies, but not tool output. A response truncated at the limit has length :math:`L_\max` and gets the full penalty.
    A response that is truncated before :math:`L_\max`, because the model's context is full, is treated like a finished
    response.

    Degenerate cases: rewards of invalid members (rollouts that the verifier could not score) do not change, even if
    they are NaN. A group of failures of different lengths gets a gradient towards shorter responses. The verifier's
    verdict and the recorded reward do not change.

    Source: DAPO, arXiv 2503.14476, Eq. 13. The paper uses :math:`L_\max` = 20,480, a buffer of 4,096 and
    :math:`\lambda` = 1, with rewards of 1 and -1.

    >>> m = Members(np.array([1.0, 1.0, -1.0]), np.array([True, True, False]), np.array([60, 90, 100]))
    >>> Overlong(max_tokens=100, buffer=40).rewards(m, step=1).tolist()
    [1.0, 0.25, -2.0]
    """

    max_tokens: int = Field(
        ge=1,
        description="maximum response length in tokens, at which the penalty is largest; must equal sample.max_tokens",
    )
    buffer: int = Field(
        ge=1,
        description="number of tokens before max_tokens over which the penalty rises linearly from 0 to its maximum",
    )
    weight: float = Field(
        1.0, ge=0, description="maximum penalty, subtracted from the reward of a response at the length limit"
    )

    @model_validator(mode="after")
    def _buffer_fits(self) -> Overlong:
        if self.buffer > self.max_tokens:
            raise ValueError(f"buffer is {self.buffer}, but should be at most max_tokens, {self.max_tokens}")
        return self

    @property
    def response_limit(self) -> int | None:
        return self.max_tokens

    def rewards(self, members: Members, step: int) -> Floats:
        over_G = path_lengths(members) - (self.max_tokens - self.buffer)
        penalties_G = self.weight * np.clip(over_G / self.buffer, 0.0, 1.0)
        return np.where(members.valid_G, members.rewards_G - penalties_G, members.rewards_G)


def path_lengths(members: Members) -> Floats:
    """Return each member's number of trainable tokens, including tokens in a branch's prefix, float64 ``[G]``."""
    return (members.starts_G + members.tokens_G).astype(np.float64)
