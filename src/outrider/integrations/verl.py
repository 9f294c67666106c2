"""Registers a recipe's advantage computation and policy loss with verl, as an advantage estimator and a policy loss.

A credit chain is a recipe's list of components, such as a baseline and a shaper, that compute advantages one after
another. Verl passes rewards, masks and the ``uid`` of each row's prompt to an estimator. A chain that needs other data,
such as log-probabilities, entropies, step numbers or the tree of branched rollouts, is rejected at registration. Verl
passes only a micro-batch to a loss. Therefore, a selection of tokens over a whole optimizer batch
(``objective.select``) is not supported. Verl's own configuration sets the aggregation, the KL penalty and the entropy
bonus.

The module is written for verl 0.9. Its functions are tested with verl's registries on a CPU, but no training with verl
has been run.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import TypeAdapter, ValidationError

from outrider.components import ComponentOf
from outrider.credit import Link, split
from outrider.credit.arrays import Described, advantages_from_arrays, chain_of
from outrider.credit.chain import stage_of
from outrider.credit.explain import worked_group
from outrider.errors import UserError
from outrider.objective import SURROGATES, Surrogate

if TYPE_CHECKING:
    from torch import Tensor

PREFIX = "outrider_"
RECIPE = "outrider_recipe"  # name of the estimator and the loss of a whole recipe
SURROGATE = "OUTRIDER_VERL_SURROGATE"  # environment variable from which every verl process reads its surrogate
BASELINES = ("group_mean", "leave_one_out", "maxrl", "no_baseline", "passk", "reinforce_pp")
_SURROGATE: TypeAdapter[Surrogate] = TypeAdapter(Annotated[Surrogate, ComponentOf(SURROGATES, "surrogate", Surrogate)])


def register_chain(name: str, chain: Sequence[Described], success_above: float | None = None) -> Callable[..., Any]:
    """Register a credit chain (a sequence of advantage computations) as verl's ``algorithm.adv_estimator=NAME``, and
    return the estimator.

    A row's reward is the sum of its token-level rewards. Baselines ignore rows without trainable tokens. The advantages
    are also passed to verl as the returns, since there is no critic that learns from returns.

    Args:
        chain: the components of the chain, such as a baseline and a shaper, or their names and options as in a recipe.
        success_above: a row is a success if its reward is above this value. If None, rewards must be 0 and 1, or -1 and
            1.

    Raises:
        UserError: the chain is invalid, or needs data that verl does not provide. Later, the estimator raises this
            error if a batch has no ``uid``, or if the batch's rewards do not determine which rows succeed.
        ModuleNotFoundError: verl is not installed.
        ValueError: verl already has another estimator with this name.
    """
    registered: Callable[..., Any] = _core().register_adv_est(name)(estimator(chain, success_above))
    return registered


def register_loss(name: str, surrogate: Surrogate | str | Mapping[str, Any]) -> Callable[..., Any]:
    """Register a surrogate (policy loss per token) as verl's ``actor.policy_loss.loss_mode=NAME``; return the loss.

    Verl's rollout correction weights the token losses, and verl's ``loss_agg_mode`` aggregates them. For the surrogates
    ``gmpo`` and ``clip: {ratio: sequence}``, the original papers aggregate with ``seq-mean-token-mean``.

    Raises:
        UserError: the surrogate does not exist, or one of its options is invalid.
        ModuleNotFoundError: verl is not installed.
    """
    registered: Callable[..., Any] = _core().register_policy_loss(name)(policy_loss(surrogate))
    return registered


def register_defaults() -> list[str]:
    """Register baselines and surrogates with their default options as ``outrider_<name>``; return the names.

    Surrogates that need the policy's most likely tokens at each position are not registered, since verl does not
    provide these tokens.
    """
    surrogates = [name for name, surrogate in SURROGATES.items() if not surrogate().reads_top]
    for baseline in BASELINES:
        register_chain(PREFIX + baseline, [baseline])
    for surrogate in surrogates:
        register_loss(PREFIX + surrogate, surrogate)
    return [PREFIX + name for name in (*BASELINES, *surrogates)]


def estimator(chain: Sequence[Described], success_above: float | None = None) -> Callable[..., Any]:
    """Return the advantage estimator that :func:`register_chain` registers. Verl calls it with keyword arguments."""
    links = chain_of(chain)
    _refuse_if_verl_has_too_little(links)

    def outrider_advantages(
        token_level_rewards: Tensor, response_mask: Tensor, index: Any = None, config: Any = None, **unused: Any
    ) -> tuple[Tensor, Tensor]:
        if index is None:
            raise UserError("this batch of verl has no uid, so the rows of one prompt cannot be grouped")
        mask_BT = response_mask.bool().cpu().numpy()
        rewards_B = (token_level_rewards * response_mask).sum(-1).double().cpu().numpy()
        success_B = None if success_above is None else rewards_B > success_above
        advantages_BT = advantages_from_arrays(links, index, rewards_B, mask_BT, success=success_B)
        advantages = token_level_rewards.new_tensor(advantages_BT)
        # verl also expects returns, which only a critic would use
        return advantages, advantages.clone()

    return outrider_advantages


def policy_loss(surrogate: Surrogate | str | Mapping[str, Any]) -> Callable[..., Any]:
    """Return the policy loss that :func:`register_loss` registers. Verl calls it with keyword arguments."""
    try:
        options = _SURROGATE.validate_python(surrogate)
    except ValidationError as error:
        raise UserError(f"surrogate: {error.errors()[0]['msg']}") from None
    if options.reads_top:
        raise UserError(
            "this surrogate reads the likeliest tokens at each place, and verl gives a loss only the sampled one"
        )
    import torch

    from outrider.objective.kl import log_ratio_of
    from outrider.objective.ratio import TokenRatios

    def outrider_loss(
        old_log_prob: Tensor,
        log_prob: Tensor,
        advantages: Tensor,
        response_mask: Tensor,
        loss_agg_mode: str = "token-mean",
        config: Any = None,
        rollout_is_weights: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        rows, width = log_prob.shape
        live = response_mask.bool().reshape(-1)
        _, bounded = log_ratio_of(log_prob.reshape(-1), old_log_prob.reshape(-1), live)
        advantages_N = torch.where(live, advantages.reshape(-1), 0)
        # rows keep verl's padding, whose tokens are not live and therefore have no effect
        ratios = TokenRatios(bounded, log_prob.reshape(-1), advantages_N, live, [width] * rows)
        gain, marks = options.gain(ratios)
        losses = -gain.reshape(rows, width)
        if rollout_is_weights is not None:
            losses = losses * rollout_is_weights
        batch = {} if config is None else config.global_batch_info
        loss = _core().agg_loss(losses, response_mask, loss_agg_mode, **batch)
        tokens = live.sum().clamp_min(1)
        return loss, {f"actor/{name}": float((mark * live).sum() / tokens) for name, mark in marks.items()}

    return outrider_loss


def _core() -> Any:
    return importlib.import_module("verl.trainer.ppo.core_algos")


def _refuse_if_verl_has_too_little(links: Sequence[Link]) -> None:
    """Run the advantage components ``links`` on example rows. Raise UserError if they need data that verl lacks."""
    if stage := stage_of(split(links).baseline):
        raise UserError(f"this chain compares with the rollouts of a stage {stage!r}, which verl does not draw")
    members = worked_group().members
    mask = [[1] * 10] * members.size
    try:
        advantages_from_arrays(links, [0] * members.size, members.rewards_G, mask, success=members.success_G)
    except UserError as error:
        raise UserError(f"verl does not provide enough for this chain: {error}") from None
