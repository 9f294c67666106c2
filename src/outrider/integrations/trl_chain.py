"""The credit chain (sequence of advantage components) of a TRL trainer, and checks of TRL's options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrider.arrays import Flags
from outrider.config import Recipe, load_recipe
from outrider.credit import Link, split
from outrider.credit.arrays import Described, advantages_from_arrays, chain_of
from outrider.credit.chain import stage_of
from outrider.credit.explain import worked_group
from outrider.errors import UserError
from outrider.integrations.trl_config import refuse_other_values


class CarriedChain(NamedTuple):
    """A credit chain (sequence of advantage components) that TRL supports.

    Attributes:
        links: the components of the chain.
        reads: the inputs that the components need; a subset of ``logprobs`` and ``entropies``.
        verdicts: allowed sets of reward values, such as 0 and 1. All rewards of a batch must be in one of these sets.
        success: the reward in ``verdicts`` that means success.
        success_at: minimum reward of a success, used instead of ``verdicts``. If None, ``verdicts`` determine which
            rewards are successes.
    """

    links: list[Link]
    reads: tuple[str, ...]
    verdicts: tuple[frozenset[float], ...] = (frozenset({0.0, 1.0}), frozenset({-1.0, 1.0}))
    success: float = 1.0
    success_at: float | None = None

    @staticmethod
    def of(
        recipe: str | Path | Recipe | None, chain: Sequence[Described] | None, success_at: float | None, args: Any
    ) -> CarriedChain:
        """Return the credit chain (advantage computation) of ``recipe``, or the given ``chain``. ``args``, a
        ``GRPOConfig``, must have the values of ``grpo_config(recipe)`` if a recipe is given.

        Raises:
            UserError: neither or both of ``recipe`` and ``chain`` are given, or TRL does not support the chain.
        """
        if recipe is None and chain is not None:
            links = chain_of(chain)
            carried = CarriedChain(links, _reads(links), success_at=success_at)
        elif recipe is not None and chain is None:
            found = recipe if isinstance(recipe, Recipe) else load_recipe(str(recipe))
            refuse_other_values(found, args)
            rewards = frozenset(value for value in found.reward.model_dump().values() if value is not None)
            links = found.credit["main"]
            carried = CarriedChain(links, _reads(links), (rewards,), found.reward.correct, success_at)
        else:
            raise UserError("CreditGRPOTrainer takes recipe= or chain=, one of the two")
        _refuse_args(links, args)
        return carried

    def succeeds(self, rewards_B: NDArray[np.float32]) -> Flags:
        """Return which rows succeed.

        Raises:
            UserError: ``success_at`` is None, and the rewards do not all belong to one set in ``verdicts``, such as 0
                and 1.
        """
        # compare in float32, the type of TRL's rewards, since 0.7 in float32 is below 0.7 in float64
        if self.success_at is not None:
            return np.asarray(rewards_B >= np.float32(self.success_at))
        verdicts = [np.array(sorted(values), np.float32) for values in self.verdicts]
        strange_SB = [~np.isin(rewards_B, values) & ~np.isnan(rewards_B) for values in verdicts]
        if all(strange_B.any() for strange_B in strange_SB):
            known = " or ".join(str(sorted(values)) for values in self.verdicts)
            raise UserError(
                f"a completion has the reward {rewards_B[strange_SB[0]][0]}, and rewards of verdicts are {known}: for "
                "other rewards, set success_at, the minimum reward of a success"
            )
        return np.asarray(rewards_B == np.float32(self.success))


def _reads(links: Sequence[Link]) -> tuple[str, ...]:
    """Return which token data the advantage components ``links`` read: log-probabilities, entropies, both or neither.
    To find this out, the components are run on an example group.

    Raises:
        UserError: the components need data other than log-probabilities and entropies.
    """
    if stage := stage_of(split(links).baseline):
        raise UserError(
            f"TRL does not support this chain: it compares with the rollouts of a stage {stage!r}, which TRL does not "
            "draw; leave_one_out needs no such rollouts"
        )
    members = worked_group().members
    mask = np.ones((members.size, 10))
    reason = UserError()
    for reads in ((), ("logprobs",), ("entropies",), ("entropies", "logprobs")):
        given: dict[str, Any] = dict.fromkeys(reads, mask)
        try:
            advantages_from_arrays(
                links, [0] * members.size, members.rewards_G, mask, success=members.success_G, step=1, **given
            )
        except UserError as error:
            reason = error
        else:
            return reads
    raise UserError(f"TRL does not support this chain: {reason}")


def _refuse_args(links: Sequence[Link], args: Any) -> None:
    """Raise UserError for the first ``GRPOConfig`` value that conflicts with the advantage components ``links``."""
    before, baseline, _ = split(links)
    limit = next((link.response_limit for link in before if link.response_limit is not None), None)
    for found, sentence in (
        (
            limit not in (None, args.max_completion_length),
            f"max_completion_length is {args.max_completion_length}, but the chain assumes responses of at most "
            f"{limit} tokens: set both to the same number",
        ),
        (
            baseline.goal is not None and args.loss_type != "dr_grpo",
            f"loss_type is {args.loss_type!r}, whose denominator changes the goal that the chain states; "
            "'dr_grpo' keeps it",
        ),
        (
            args.loss_type == "vespo",
            "loss_type is 'vespo', which weighs a whole completion by the sign of one advantage, and a chain gives "
            "one for each token; 'dapo' takes these",
        ),
        (
            args.off_policy_mask_threshold is not None,
            "off_policy_mask_threshold keeps or drops whole completions by the sign of one advantage, and a chain "
            "gives one for each token; set it to None",
        ),
        (
            args.multi_objective_aggregation != "sum_then_normalize",
            f"multi_objective_aggregation is {args.multi_objective_aggregation!r}, which the chain would replace; "
            "rewards are added up ('sum_then_normalize')",
        ),
        (
            args.scale_rewards == "batch",
            "scale_rewards is 'batch', which the chain would replace; the baseline reinforce_pp divides by the batch's "
            "standard deviation",
        ),
    ):
        if found:
            raise UserError(sentence)
