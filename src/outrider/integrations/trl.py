"""Trains in TRL's ``GRPOTrainer`` with the advantages of an Outrider recipe. Recipes that TRL does not support, such as
recipes with a varying number of rollouts per prompt, are rejected.

After TRL has generated and scored the rows of all processes, :class:`CreditGRPOTrainer` replaces TRL's advantages with
the recipe's advantages, one per token. The module is written for TRL 1.16.0, and is tested on a CPU with one and two
processes. The module has never been run with a GPU, vLLM, images, DeepSpeed or FSDP.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from outrider.arrays import Floats
from outrider.config import Recipe
from outrider.credit.arrays import Described, advantages_from_arrays
from outrider.errors import UserError
from outrider.integrations.trl_chain import CarriedChain
from outrider.integrations.trl_config import grpo_config

if TYPE_CHECKING:
    from torch import Tensor

try:
    from trl import GRPOTrainer
except ImportError as error:  # reported only when a trainer is created, so that this module can be imported without TRL
    GRPOTrainer, _MISSING = object, f"CreditGRPOTrainer needs TRL: pip install 'trl==1.16.*' ({error})"
else:
    _MISSING = ""

__all__ = ["CreditGRPOTrainer", "grpo_config"]


class CreditGRPOTrainer(GRPOTrainer):  # type: ignore[misc]  # TRL is untyped
    """TRL's ``GRPOTrainer`` with the advantages of a credit chain (the recipe's sequence of advantage components).

    Advantages are float32 ``[B, T]``, one per completion token. ``B`` is the number of rows of a generation batch in
    this process, and ``T`` is the length of the longest completion. A group is ``num_generations`` consecutive rows
    over all processes, and a batch baseline uses all rows of all processes. A row's reward is TRL's weighted sum of
    rewards. Tokens that TRL masks (padding, tool output, ``env_mask``) get advantage 0, and are not counted in the
    length of the response. A chain may read log-probabilities (nats, at the sampling temperature) or entropies (nats).
    In this case, the trained model computes these values before the update, in one additional forward pass per
    generation batch. Components receive a step number that counts generation batches from 1.

    Degenerate cases: a completion for which every reward function returned None gets advantage 0, and does not affect
    the rest of its group. The same holds for a completion without a trained token, such as a truncated completion with
    ``mask_truncated_completions``. TRL itself, in contrast, counts the reward of such a completion in the group mean.
    If all rewards of a group are equal, its advantages are exactly 0. ``scale_rewards`` affects only TRL's metric
    ``frac_reward_zero_std``, since the chain scales rewards.

    In addition to TRL's metrics, the trainer logs three shares of the rows of all processes. ``credit/unscorable`` is
    the share of rows without a reward, and ``credit/masked`` is the share of rows without a trained token.
    ``credit/zero_advantage`` is the share of rows in which every token has advantage 0. TRL's table of completions
    shows each row's mean advantage over trained tokens.

    Args:
        model, reward_funcs, args, *others, **options: arguments of ``GRPOTrainer``; ``args`` is required.
        recipe: a ``Recipe``, or a name or YAML file for ``load_recipe``. ``args`` must agree with the recipe, as in
            ``GRPOConfig(..., **grpo_config(recipe))``.
        chain: a credit chain, instead of a recipe. The loss and the sampling options then come from ``args`` alone.
        success_at: minimum reward of a success. If None, only certain rewards are allowed. With a recipe, these are the
            values of the options in its section ``reward`` (``correct``, ``incorrect`` and so on), and the value of
            ``correct`` means success. With a ``chain``, they are 0 and 1, or -1 and 1, and 1 means success.

    Raises:
        UserError: TRL is missing or has another version, or does not support the recipe or chain with these ``args``.
            During training, this error means that a reward is infinite, or that ``success_at`` is None and a reward has
            an unexpected value.

    Example::

        recipe = load_recipe("ppl")
        args = GRPOConfig("out", per_device_train_batch_size=256, **grpo_config(recipe))
        CreditGRPOTrainer(model, reward, args, dataset, recipe=recipe).train()

    Source: ``trl/trainer/grpo_trainer.py`` of TRL 1.16.0.
    """

    def __init__(
        self,
        model: Any,
        reward_funcs: Any = None,
        args: Any = None,
        *others: Any,
        recipe: str | Path | Recipe | None = None,
        chain: Sequence[Described] | None = None,
        success_at: float | None = None,
        **options: Any,
    ) -> None:
        _refuse_other_trl()
        if args is None:
            raise UserError("args is None, but decides what TRL can carry: give CreditGRPOTrainer a GRPOConfig")
        self._credit = CarriedChain.of(recipe, chain, success_at, args)
        super().__init__(model, reward_funcs, args, *others, **options)
        if self._credit.reads and self._is_vlm:
            raise UserError(f"the chain reads {' and '.join(self._credit.reads)}, which only models of text give here")

    def _calculate_rewards(self, *given: Any, **named: Any) -> Tensor:
        rewards_BF: Tensor = super()._calculate_rewards(*given, **named)
        self._rewards_BF = rewards_BF  # rewards of all processes, from which the advantages will be computed
        return rewards_BF

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        mask_BT = output["completion_mask"]
        if "tool_mask" in output:
            mask_BT = mask_BT * output["tool_mask"]
        rows, width = mask_BT.shape
        first = self.accelerator.process_index * rows
        output["advantages"] = self._advantages(output, mask_BT)[first : first + rows, :width]
        return output

    def _advantages(self, output: dict[str, Any], mask_BT: Tensor) -> Tensor:
        """Return the advantages of all processes' rows, padded to the longest row, and log each row's mean."""
        mode = "train" if self.model.training else "eval"
        rewards_BF = self._rewards_BF
        weighted_B = (rewards_BF * self.reward_weights.to(rewards_BF.device)).nansum(dim=1)
        rewards_B = weighted_B.masked_fill(rewards_BF.isnan().all(dim=1), float("nan")).cpu().numpy()
        size = self.num_generations if mode == "train" else self.num_generations_eval
        batches = self.args.steps_per_generation * self.num_iterations
        everywhere_BT = self._gathered(mask_BT)
        advantages_BT = advantages_from_arrays(
            self._credit.links,
            np.arange(len(everywhere_BT)) // size,
            rewards_B,
            everywhere_BT,
            success=self._credit.succeeds(rewards_B),
            step=self.state.global_step * self.args.gradient_accumulation_steps // batches + 1,
            **{name: self._gathered(values_BT) for name, values_BT in self._policy_numbers(output).items()},
        )
        self._log_credit(mode, advantages_BT, everywhere_BT, rewards_B)
        return rewards_BF.new_tensor(advantages_BT)

    def _policy_numbers(self, output: dict[str, Any]) -> dict[str, Tensor]:
        """Return the log-probabilities and entropies that the credit components read, as ``[B, T]`` for this process's
        rows."""
        import torch

        found = {"logprobs": output["old_per_token_logps"]} if "old_per_token_logps" in output else {}
        if not found.keys() >= set(self._credit.reads):
            ids, mask = (torch.cat([output[f"prompt_{x}"], output[f"completion_{x}"]], dim=1) for x in ("ids", "mask"))
            training, width = self.model.training, output["completion_ids"].shape[1]
            rows = self.args.per_device_train_batch_size if training else self.args.per_device_eval_batch_size
            with torch.no_grad():
                logprobs_BT, entropies_BT, _ = self._get_per_token_logps_and_entropies(
                    self.model, ids, mask, width, batch_size=rows, compute_entropy=True
                )
            found = {"logprobs": logprobs_BT, "entropies": entropies_BT}
        return {name: found[name] for name in self._credit.reads}

    def _gathered(self, values_BT: Tensor) -> Floats:
        """Return the rows of all processes in order, padded with zeros to the longest row."""
        padded = self.accelerator.pad_across_processes(values_BT.float(), dim=1)
        gathered: Floats = self.accelerator.gather(padded.contiguous()).cpu().numpy()
        return gathered

    def _log_credit(self, mode: str, advantages_BT: Floats, mask_BT: Floats, rewards_B: Floats) -> None:
        tokens_B = mask_BT.sum(axis=1)
        shares = {"unscorable": np.isnan(rewards_B), "masked": tokens_B == 0}
        shares["zero_advantage"] = ~advantages_BT.any(axis=1)
        for name, share_B in shares.items():
            self._metrics[mode][f"credit/{name}"].append(float(share_B.mean()))
        logged = self._logs["advantages"]
        for _ in range(
            min(len(tokens_B), len(logged))
        ):  # remove TRL's own advantages from the log, which has a maximum length
            logged.pop()
        logged.extend((advantages_BT.sum(axis=1) / np.maximum(tokens_B, 1)).tolist())


def _refuse_other_trl() -> None:
    """Raise UserError if TRL is missing, or lacks a method that the trainer overrides or calls."""
    if _MISSING:
        raise UserError(_MISSING)
    for name in ("_calculate_rewards", "_generate_and_score_completions", "_get_per_token_logps_and_entropies"):
        if not hasattr(GRPOTrainer, name):
            raise UserError(f"this TRL's GRPOTrainer has no {name}, by which advantages are replaced; 1.16 has")
