"""A stage and a baseline of one's own, for `my_stage_and_advantage`: each is a class in a file, with its options."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import Field

from outrider import Baseline, Members, SampleRequest, Stage, View


class Retry(Stage):
    """More rollouts for every problem that the stages before did not solve, once a step."""

    n: int = Field(8, ge=1, description="rollouts for each unsolved problem")

    def plan(self, view: View) -> Sequence[SampleRequest]:
        if view.round > 0:
            return []
        return [
            SampleRequest(group.problem, n=self.n) for group in view.groups if not (group.successes or group.dropped)
        ]


class Rarity(Baseline):
    r"""A success counts for more, the rarer it is: :math:`A = r - \bar r` times :math:`1 - \bar r` for successes.

    Zero where all rewards are equal; rollouts without a reward get 0.
    """

    def advantages(self, members: Members) -> np.ndarray:
        rewards_G = np.where(members.valid_G, members.rewards_G, 0.0)
        mean = rewards_G[members.valid_G].mean() if members.valid_G.any() else 0.0
        weight_G = np.where(rewards_G > mean, 1 - mean, 1.0)
        return np.where(members.valid_G, weight_G * (rewards_G - mean), 0.0)
