"""The map from verdicts to rewards."""

from __future__ import annotations

import math

from pydantic import Field

from outrider.options import Options
from outrider.record import Outcome, Verdict


class RewardOptions(Options):
    """The reward of each verdict. A reward of null makes a rollout *unscorable*: the rollout is recorded, but does not
    count in any baseline.

    A correct or incorrect verdict with a score between 0 and 1 (a graded task) gets ``incorrect + score * (correct -
    incorrect)``.
    """

    correct: float = Field(1.0, description="reward of a correct response")
    incorrect: float = Field(0.0, description="reward of an incorrect response")
    unparseable: float | None = Field(
        0.0,
        description=(
            "reward of a response in which the verifier finds no answer; null: no reward, so that the response gets "
            "advantage 0 and is not counted in baselines"
        ),
    )
    timeout: float | None = Field(
        None,
        description=(
            "reward of a response whose verification times out; null: no reward, so that the response gets advantage 0 "
            "and is not counted in baselines"
        ),
    )
    error: float | None = Field(
        None,
        description=(
            "reward of a response on which the verifier fails with an error; null: no reward, so that the response "
            "gets advantage 0 and is not counted in baselines"
        ),
    )

    def of(self, verdict: Verdict) -> float:
        """Return the reward of a verdict; NaN if unscorable."""
        if verdict.outcome in (Outcome.CORRECT, Outcome.INCORRECT):
            return self.incorrect + verdict.score * (self.correct - self.incorrect)
        reward = {"unparseable": self.unparseable, "timeout": self.timeout, "error": self.error}[verdict.outcome.value]
        return math.nan if reward is None else reward
