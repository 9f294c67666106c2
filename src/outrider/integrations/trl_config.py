"""Translates a recipe into arguments of TRL's ``GRPOConfig``, and rejects options that TRL does not support.

docs/use-outside.md documents the behaviour of TRL 1.16.0 on which the translation relies. This module imports neither
TRL nor PyTorch.
"""

from __future__ import annotations

import math
from typing import Any

from outrider.config import Recipe
from outrider.errors import UserError
from outrider.explore import STAGES, Stage, Uniform
from outrider.objective import (
    AGGREGATES,
    K3,
    KL_ESTIMATORS,
    SURROGATES,
    Cispo,
    Clip,
    Constant,
    Sapo,
    SequenceMean,
    TokenMean,
    Unclipped,
)
from outrider.options import Options

_LOSS_TYPES = {TokenMean: "dapo", SequenceMean: "grpo", Constant: "dr_grpo"}
_OFF = {  # options of TRL that recipes lack, with the values that turn these options off
    "top_p": 1.0,
    "top_k": 0,
    "min_p": None,
    "repetition_penalty": 1.0,
    "generation_kwargs": None,
    "scale_rewards": "none",
    "multi_objective_aggregation": "sum_then_normalize",
    "mask_truncated_completions": False,
    "off_policy_mask_threshold": None,
    "top_entropy_quantile": 1.0,
    "entropy_coef": 0.0,
    "use_adaptive_entropy": False,
    "sync_ref_model": False,
}


def grpo_config(recipe: Recipe) -> dict[str, Any]:
    """Translate a recipe into arguments of TRL's ``GRPOConfig(output_dir, **grpo_config(recipe))``.

    The arguments set the number of rollouts (``num_generations``), the sampling distribution and response limit, the
    policy loss with its denominators, the KL penalty, and the passes over a batch. They turn off all other terms of
    TRL's loss. With one optimizer step per generation batch, TRL's loss equals the recipe's loss up to rounding.

    These sections of the recipe are not translated, since TRL has its own arguments for them: ``model``, ``policy``,
    ``task``, ``reward``, ``engine``, ``train``, ``evaluate``, ``seed``, and ``learn`` except ``epochs`` and
    ``minibatches``.

    Raises:
        UserError: TRL does not support a value in the recipe. The message names the value's key, and the values that
            TRL supports for this key.

    >>> from outrider.config import load_recipe
    >>> found = grpo_config(load_recipe("ppl"))
    >>> [found[key] for key in ("num_generations", "loss_type", "epsilon", "epsilon_high", "beta")]
    [8, 'dapo', 0.2, 0.28, 0.0]
    """
    _refuse_uncarried(recipe)
    [uniform], sample, learn, kl = recipe.explore, recipe.sample, recipe.learn, recipe.objective.kl
    assert isinstance(uniform, Uniform)
    return _OFF | {
        "num_generations": uniform.n,
        "temperature": sample.temperature,
        "max_completion_length": sample.max_tokens,
        "num_iterations": learn.epochs,
        "beta": kl.coef,
        **({"use_bias_correction_kl": False} if kl.coef else {}),  # TRL's default True adds the ratio's gradient
        **_loss(recipe),
    }


def refuse_other_values(recipe: Recipe, args: Any) -> None:
    """Raise UserError if a ``GRPOConfig`` argument differs from the value in ``grpo_config(recipe)``."""
    for key, value in grpo_config(recipe).items():
        if (given := getattr(args, key)) != value:
            of = f"explore.0.n of recipe {recipe.name!r}" if key == "num_generations" else f"recipe {recipe.name!r}"
            raise UserError(
                f"{key} is {given!r}, but {of} has {value!r}: GRPOConfig(..., **grpo_config(recipe)) takes over "
                "all values of a recipe, and chain=recipe.credit['main'] its credit alone"
            )
    if args.steps_per_generation != args.gradient_accumulation_steps:
        raise UserError(
            f"steps_per_generation is {args.steps_per_generation} and gradient_accumulation_steps is "
            f"{args.gradient_accumulation_steps}, but a recipe has one optimizer step for a generation batch: set both "
            "to the same number"
        )


def _refuse_uncarried(recipe: Recipe) -> None:
    objective, learn = recipe.objective, recipe.learn
    other = next((i for i, stage in enumerate(recipe.explore) if i or type(stage) is not Uniform), None)
    stream = next((name for name in recipe.credit if name != "main"), None)
    for found, sentence in (
        (
            other is not None,
            f"explore.{other} is {_name(recipe.explore[other or 0])}, but TRL samples the same number of completions "
            "for every prompt; supported is one uniform stage, and chain=recipe.credit['main'] uses only the credit",
        ),
        (stream, f"credit.{stream} is a separate loss stream, but TRL has one; only main is supported"),
        (objective.streams.get("main") != 1.0, "objective.streams.main scales the whole loss; supported is main: 1.0"),
        (objective.select, "objective.select chooses tokens over a whole optimizer batch; objective.select=null"),
        (objective.correction, "objective.correction: TRL has its own, for vLLM alone; objective.correction=null"),
        (
            objective.entropy.bonus or objective.entropy.target is not None,
            "objective.entropy: TRL uses its mean over a micro-batch; objective.entropy.bonus=0 and target=null",
        ),
        (
            objective.kl.coef and type(objective.kl.estimator) is not K3,
            f"objective.kl.estimator is {_in(KL_ESTIMATORS, objective.kl.estimator)}, and TRL's is k3",
        ),
        (objective.kl.mask_without_signal, "objective.kl.mask_without_signal: TRL's KL applies to every row"),
        (objective.kl.reset_every, "objective.kl.reset_every: TRL keeps its reference; objective.kl.reset_every=null"),
        (recipe.sample.stop, "sample.stop holds texts that end a response, and TRL ends it by tokens; sample.stop=[]"),
        (learn.minibatches > 1, "learn.minibatches: TRL splits a step by rows, not by groups; learn.minibatches=1"),
    ):
        if found:
            raise UserError(f"TRL does not support recipe {recipe.name!r}: {sentence}")


def _loss(recipe: Recipe) -> dict[str, Any]:
    surrogate, aggregate = recipe.objective.surrogate, recipe.objective.aggregate
    if type(aggregate) not in _LOSS_TYPES or aggregate.denominator != "all":
        raise _refused(recipe, "aggregate", f"{_in(AGGREGATES, aggregate)}: {{denominator: {aggregate.denominator}}}")
    if isinstance(aggregate, Constant) and aggregate.length not in (None, recipe.sample.max_tokens):
        raise _refused(recipe, "aggregate", f"constant: {{length: {aggregate.length}}}, which is not sample.max_tokens")
    plain = {"loss_type": _LOSS_TYPES[type(aggregate)], "importance_sampling_level": "token", "delta": None}
    if type(surrogate) is Clip and surrogate.ratio != "sequence_token":
        # TRL's dual bound applies to both signs, so a bound below 1 + high would also clip positive advantages
        if surrogate.dual is not None and surrogate.dual < 1 + surrogate.high:
            raise _refused(recipe, "surrogate", f"clip: {{dual: {surrogate.dual}}}, below 1 + high")
        bounds = {"epsilon": surrogate.low, "epsilon_high": surrogate.high, "delta": surrogate.dual}
        return plain | bounds | {"importance_sampling_level": surrogate.ratio}
    if type(surrogate) is Unclipped and surrogate.ratio != "sequence_token":
        bounds = {"epsilon": 1.0, "epsilon_high": math.inf}
        return plain | bounds | {"importance_sampling_level": surrogate.ratio}
    if type(surrogate) is Cispo and surrogate.low is None and isinstance(aggregate, TokenMean):
        # with cispo, TRL's epsilon_high is the upper bound of the weight
        return plain | {"loss_type": "cispo", "epsilon_high": 1 + surrogate.high}
    if type(surrogate) is Sapo and isinstance(aggregate, SequenceMean):
        taus = {"sapo_temperature_pos": surrogate.tau_positive, "sapo_temperature_neg": surrogate.tau_negative}
        return plain | {"loss_type": "sapo"} | taus
    raise _refused(recipe, "surrogate", f"{_in(SURROGATES, surrogate)} with aggregate {_in(AGGREGATES, aggregate)}")


def _refused(recipe: Recipe, key: str, value: str) -> UserError:
    return UserError(
        f"TRL does not support recipe {recipe.name!r}: objective.{key} is {value}; supported are clip and unclipped "
        "(ratio: token or sequence) with every aggregate over all rows, cispo without low with token_mean, "
        "and sapo with sequence_mean"
    )


def _name(stage: Stage) -> str:
    return _in(STAGES, stage)


def _in(table: dict[str, Any], component: Options) -> str:
    """Return the name of a component in a recipe. The name of a third-party component is the name of its class."""
    return next((name for name, kind in table.items() if type(component) is kind), type(component).__name__)
