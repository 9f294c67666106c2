r"""The coefficient of the entropy bonus: constant, or adapted towards a target entropy.

The loss contains :math:`-\alpha_k \sum_t w_t H_t` with token weights :math:`w_t`, so :math:`\alpha` is in units of the
policy term. The gradient of the bonus is the gradient of each token's entropy, given the tokens before it. A token also
affects the entropy of later tokens, so this gradient is not the gradient of the entropy of whole responses. With a
target, the coefficient in step :math:`k` depends on the mean entropy :math:`e_k` per trainable token at sampling:

.. math:: \alpha_k = c_k\, [e_k \le \mathrm{target}], \qquad
          c_{k+1} = \mathrm{clip}(c_k \pm \Delta,\; 0,\; \mathrm{most}), \text{ up if } e_k < \mathrm{target}

A step without trainable tokens does not change the coefficient. With a bonus, rows with zero advantage are trained on
too.

Source: adaptive entropy control of Skywork-OR1, arXiv 2505.22312. The coefficient's bounds, 0 and ``most``, are from
the authors' code.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import Field, model_validator

from outrider.errors import UserError
from outrider.options import Options
from outrider.record.row import WeightedRow


class EntropyOptions(Options):
    """A bonus for the policy's entropy, constant or adapted towards a target."""

    bonus: float = Field(
        0.0,
        ge=0,
        description=(
            "coefficient of the entropy bonus in the loss; 0: no bonus; if target is set, this coefficient applies "
            "only to the first training step"
        ),
    )
    target: float | None = Field(
        None,
        gt=0,
        description=(
            "target entropy in nats per token: the coefficient of the bonus rises while the entropy is below the "
            "target, and falls while it is above; null: constant coefficient"
        ),
    )
    step: float = Field(
        1e-4,
        gt=0,
        description=(
            "amount by which the coefficient of the entropy bonus changes per training step; used only if target is set"
        ),
    )
    most: float = Field(0.005, gt=0, description="maximum coefficient of the entropy bonus; used only if target is set")

    @model_validator(mode="after")
    def _begins_in_bounds(self) -> EntropyOptions:
        if self.target is not None and self.bonus > self.most:
            raise ValueError(f"bonus is {self.bonus}, the initial coefficient, but the maximum, most, is {self.most}")
        return self


class EntropyBonus:
    """The coefficient of the entropy bonus, and the state needed to adapt it.

    >>> bonus = EntropyBonus(EntropyOptions(bonus=0.001, target=0.5, step=0.0005))
    >>> for entropy in (0.4, 0.4, 0.6, 0.4):
    ...     bonus.observe(entropy)
    ...     print(round(bonus.coefficient, 4))
    0.001
    0.0015
    0.0
    0.0015
    """

    def __init__(self, options: EntropyOptions) -> None:
        self.options = options
        self.coefficient = self._next = options.bonus

    @property
    def active(self) -> bool:
        """Whether the bonus is positive or may become positive."""
        return self.options.bonus > 0 or self.options.target is not None

    def observe(self, entropy: float) -> None:
        """Set the coefficients of this step and the next from the mean entropy of this step's tokens."""
        target = self.options.target
        if target is None or np.isnan(entropy):
            return
        # above the target the bonus is 0, while the coefficient decreases step by step
        self.coefficient = self._next if entropy <= target else 0.0
        change = self.options.step * float(np.sign(target - entropy))
        self._next = min(max(self._next + change, 0.0), self.options.most)

    def state_dict(self) -> dict[str, float]:
        return {"coefficient": self.coefficient, "next": self._next}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.coefficient, self._next = state["coefficient"], state["next"]


def entropies_of(row: WeightedRow, reader: str) -> np.ndarray:
    """Return the entropies of a row's ``token_ids``; ``reader`` names the option that needs the entropies.

    Raises:
        UserError: the sampler recorded no entropies.
    """
    if row.entropies_N is None:
        raise UserError(f"{reader} needs the entropy of every token, but this sampler records none")
    return row.entropies_N


def mean_entropy(rows: Sequence[WeightedRow]) -> float:
    """Return the mean entropy per trainable token at sampling, in nats; NaN if there are no tokens."""
    tokens = [entropies_of(row, "objective.entropy.target")[row.trainable_N] for row in rows]
    return float(np.concatenate(tokens).mean(dtype=np.float64)) if sum(map(len, tokens)) else float("nan")
