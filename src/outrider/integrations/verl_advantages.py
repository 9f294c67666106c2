"""Passes the advantages of a step from the rollout manager to verl's trainer. Experimental.

Verl's trainer passes only rewards, masks and the ``uid`` of each row to an estimator. Therefore, every row gets a
unique ``uid``, under which the row's advantages are stored. In verl's V1 trainer, the task runner creates both the
manager and the trainer in one process, so no communication between processes is needed.

The estimator checks every row. The run ends if a row is missing, duplicate or unknown, or if a row's length or reward
has changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from outrider.arrays import Floats
from outrider.errors import UserError
from outrider.integrations.verl_denominators import Denominators
from outrider.objective.options import ObjectiveOptions
from outrider.objective.weights import token_weights
from outrider.record.row import WeightedRow

if TYPE_CHECKING:
    from torch import Tensor

_PADDING = "pad"  # uid prefix of rows that verl adds to fill a batch; such rows are not trained on


class AdvantageRow(NamedTuple):
    """The advantages and the reward that are stored for one rollout. Verl's row of the same rollout must have the same
    reward, and one trained token per advantage.

    Attributes:
        reward: the rollout's reward; 0 if the verifier failed, because a NaN would make verl's mean rewards NaN.
    """

    advantages_N: Floats
    reward: float


class RecipeAdvantages:
    """Stores the advantages of one step's rows, keyed by ``uid``. Verl's trainer reads them through ``estimator``."""

    def __init__(self) -> None:
        self._rows: dict[str, AdvantageRow] = {}

    def put(self, uids: Sequence[str], rows: Sequence[WeightedRow], advantages: Sequence[Floats]) -> None:
        """Store the rows of a step, and drop the rows of the previous step."""
        given = (AdvantageRow(a, reward_of(row)) for row, a in zip(rows, advantages, strict=True))
        self._rows = dict(zip(uids, given, strict=True))

    def estimator(
        self, token_level_rewards: Tensor, response_mask: Tensor, index: Any = None, **unused: Any
    ) -> tuple[Tensor, Tensor]:
        """Return the rows' advantages, and a copy of them as the returns. Verl calls this method as its advantage
        estimator.

        Raises:
            UserError: the rows from verl are not the rows that were stored for this step, or a row occurs twice.
        """
        uids = [str(uid) for uid in ([] if index is None else index)]
        self._refuse_other_rows([uid for uid in uids if not uid.startswith(_PADDING)])
        lengths = response_mask.sum(-1).tolist()
        rewards = (token_level_rewards * response_mask).sum(-1).tolist()
        advantages = token_level_rewards.new_zeros(response_mask.shape)
        for place, uid in enumerate(uids):
            if uid.startswith(_PADDING):
                _refuse_other(uid, "trained tokens", 0, lengths[place])
                continue
            row = self._rows[uid]
            _refuse_other(uid, "trained tokens", len(row.advantages_N), lengths[place])
            _refuse_other(uid, "the reward", float(np.float32(row.reward)), rewards[place])
            advantages[place, response_mask[place].bool()] = advantages.new_tensor(row.advantages_N)
        return advantages, advantages.clone()

    def _refuse_other_rows(self, uids: Sequence[str]) -> None:
        counts = Counter(uids)
        for sentence, wrong in (
            ("missing", self._rows.keys() - counts.keys()),
            ("of another step", counts.keys() - self._rows.keys()),
            ("more than once", {uid for uid, n in counts.items() if n > 1}),
        ):
            if wrong:
                raise UserError(
                    f"the step has {len(self._rows)} rows and verl asks for {len(uids)}: {len(wrong)} {sentence}, such "
                    f"as {min(wrong)}"
                )


def reward_of(row: WeightedRow) -> float:
    """Return the reward of a row for verl; 0 if the verifier failed."""
    return 0.0 if np.isnan(row.reward) else row.reward


def advantages_for(
    rows: Sequence[WeightedRow], objective: ObjectiveOptions, denominators: Denominators, max_tokens: int
) -> list[Floats]:
    """Return the advantages of each row's trainable tokens. With ``denominators.weighted``, each advantage is
    multiplied by the weight of its token in the recipe's loss, since verl itself only sums the token losses.
    """
    advantages = [row.advantages_N[row.trainable_N] for row in rows]
    if not denominators.weighted:
        return advantages
    weights = token_weights(rows, objective, max_tokens)
    return [a * weight for a, weight in zip(advantages, weights, strict=True)]


def _refuse_other(uid: str, what: str, expected: float, found: float) -> None:
    if abs(found - expected) > 1e-5 * max(1.0, abs(expected)):
        raise UserError(f"row {uid}: {what} should be {expected:g}, and verl has {found:g}")
