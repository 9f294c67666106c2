"""Translates a recipe into a configuration of verl's V1 trainer, and rejects unsupported recipes. Experimental.

The rollout manager (:mod:`outrider.integrations.verl_manager`) rejects a run in which the user has changed a key that
determines the training. All other keys, such as the length of the run and its devices, may be changed.

docs/verl.md documents the behaviour of verl 0.9.1 on which this translation relies.
"""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

from outrider.config import Recipe
from outrider.errors import UserError
from outrider.integrations.verl import RECIPE, SURROGATE
from outrider.integrations.verl_denominators import denominators_of, most_rows
from outrider.model.places import local_config, model_folder
from outrider.objective import K1, K2, K3, Correction, Mask, Recompute, Truncate
from outrider.tasks.turn_task import TurnTask

_HERE = "outrider.integrations"
_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
_LONGEST_PROMPT = 2048
_KL = {K1: "kl", K2: "mse", K3: "low_var_kl"}  # verl's names


class VerlSettings(NamedTuple):
    """A configuration for verl: values by dotted key (``section.option``).

    Attributes:
        method: the values that determine the training, which a user must not change.
        running: the values that a user may change.
        notes: the differences between the recipe and verl, one sentence each.
    """

    method: dict[str, Any]
    running: dict[str, Any]
    notes: list[str]


def verl_settings(recipe: Recipe) -> VerlSettings:
    """Translate a recipe into verl's configuration.

    Raises:
        UserError: verl does not support the recipe. The message names the recipe's key and the values that verl
            supports.
    """
    _refuse_uncarried(recipe)
    method = _trainer(recipe) | _data(recipe) | _rollouts(recipe) | _loss(recipe) | _optimizer(recipe)
    return VerlSettings(method, _running(recipe), _notes(recipe))


def recipe_text(recipe: Recipe) -> str:
    """Return the whole recipe as JSON, escaped so that OmegaConf does not interpolate any value."""
    return json.dumps(recipe.resolved()).replace("${", "\\u0024{")


def recipe_of(text: str) -> Recipe:
    """Parse a recipe from the JSON that :func:`recipe_text` returns.

    Raises:
        UserError: the text is not a recipe, or was written by another version of Outrider.
    """
    try:
        return Recipe.model_validate(json.loads(text))
    except (ValueError, TypeError) as error:  # pydantic and JSON raise ValueError, or TypeError for other types
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"data.outrider holds no recipe ({reason}); write the file with this version's outrider verl-config"
        ) from None


def _refuse_uncarried(recipe: Recipe) -> None:
    """Raise UserError for the first part of a recipe that verl does not support."""
    objective, learn, train = recipe.objective, recipe.learn, recipe.train
    attention = [i for i, stage in enumerate(recipe.explore) if "attention" in stage.requires]
    branching = [i for i, stage in enumerate(recipe.explore) if "branching" in stage.requires]
    warms_by_updates = learn.warmup.endswith("updates") and not learn.warmup.startswith("0 ")
    for found, sentence in (
        (attention, f"explore.{attention[:1]} needs the policy's attention, which verl's servers do not return"),
        (
            branching,
            f"explore.{branching[:1]} needs the policy's branching factors, which verl's servers do not return",
        ),
        (objective.select, "objective.select chooses tokens over a whole batch, and verl's loss sees one micro-batch"),
        (
            objective.surrogate.reads_top,
            "objective.surrogate reads the likeliest tokens, and verl returns only the sampled one",
        ),
        (objective.entropy.target, "objective.entropy.target adapts the bonus, but verl's is constant"),
        (recipe.reads_entropies, "it reads the entropy of every sampled token, and verl's servers return none"),
        (
            isinstance(recipe.task, TurnTask),
            f"rollouts of task {recipe.task.name!r} have turns, and the manager for verl samples single responses",
        ),
        (recipe.policy.lora, "policy.lora is an adapter, for which no keys of verl were tried; policy.lora=null"),
        (objective.kl.mask_without_signal, "objective.kl.mask_without_signal: verl's KL applies to every row"),
        (objective.kl.reset_every, "objective.kl.reset_every: verl keeps its reference"),
        (learn.minibatches > 1, "learn.minibatches: verl splits a step by rows, not by groups; learn.minibatches=1"),
        (learn.schedule != "constant", "learn.schedule: only a constant one is the same in verl"),
        (
            learn.weight_decay and learn.decay != "all",
            "learn.decay is matrices, and in verl every parameter decays; learn.decay=all, or learn.weight_decay=0",
        ),
        (learn.compile, "learn.compile: verl computes with its own head; learn.compile=false"),
        (learn.deterministic, "learn.deterministic: verl's own key was not tried; learn.deterministic=false"),
        (warms_by_updates and learn.epochs > 1, "learn.warmup counts updates, and verl's counts steps"),
        (train.steps is None, "train.steps is null, but verl needs it; set it, as in train.steps=200"),
        (train.tokens, "train.tokens is a limit that verl does not count; train.tokens=null"),
        (train.seconds, "train.seconds is a limit that verl does not count; train.seconds=null"),
        (train.evaluate_at, "train.evaluate_at: verl validates at a fixed interval of steps; train.evaluate_at=[]"),
    ):
        if found:
            raise UserError(f"verl does not support this recipe: {sentence}")


def _trainer(recipe: Recipe) -> dict[str, Any]:
    return {
        "trainer.use_v1": True,
        "trainer.v1.trainer_mode": "sync",
        "trainer.v1.sampler.custom_sampler.path": None,
        "trainer.critic_warmup": 0,
        "trainer.total_training_steps": recipe.train.steps,
        "trainer.checkpoint_callback_class": f"{_HERE}.verl_manager.SaveExplorer",
        "critic.enable": False,
        "reward.reward_model.enable": False,
        "reward.custom_reward_function.path": None,  # the task verifies responses
        "actor_rollout_ref.model.custom_chat_template": None,  # the recipe's policy writes prompts
        "distillation.enabled": False,
        "algorithm.adv_estimator": RECIPE,
        "algorithm.use_kl_in_reward": False,
        "algorithm.filter_groups.enable": False,
    }


def _data(recipe: Recipe) -> dict[str, Any]:
    return {
        "data.outrider": recipe_text(recipe),
        "data.custom_cls.path": f"pkg://{_HERE}.verl_data",
        "data.custom_cls.name": "TaskProblems",
        "data.train_files": "train",
        "data.val_files": "heldout",
        "data.train_max_samples": -1,
        "data.val_max_samples": -1,
        "data.train_batch_size": recipe.train.problems,
        "data.gen_batch_size": None,
        "data.shuffle": False,
        "data.max_response_length": recipe.sample.max_tokens,
    }


def _rollouts(recipe: Recipe) -> dict[str, Any]:
    return {
        f"{_ROLLOUT}.name": "vllm",
        f"{_ROLLOUT}.n": -(-most_rows(recipe) // recipe.train.problems),
        f"{_ROLLOUT}.temperature": recipe.sample.temperature,
        f"{_ROLLOUT}.top_p": 1,
        f"{_ROLLOUT}.top_k": -1,
        f"{_ROLLOUT}.calculate_log_probs": True,
        f"{_ROLLOUT}.logprobs_mode": "processed_logprobs",
        f"{_ROLLOUT}.agent.agent_loop_manager_class": f"{_HERE}.verl_manager.ExploreManager",
    } | _correction(recipe.objective.correction)


def _correction(correction: Correction | None) -> dict[str, Any]:
    """Return verl's rollout-correction options, for the old log-probabilities and the importance weights."""
    level, threshold = None, 2.0  # verl's default, which has no effect without a level
    if isinstance(correction, Truncate):
        level, threshold = correction.level, correction.cap
    elif isinstance(correction, Mask):
        if correction.low == 0:
            raise UserError(
                "verl does not support this recipe: objective.correction.mask.low is 0, and verl's bound "
                "has to be above it"
            )
        level, threshold = correction.level, f"{correction.low}_{correction.high}"  # type: ignore[assignment]
    elif not isinstance(correction, (Recompute, type(None))):
        raise UserError(f"verl does not support this recipe: it has no correction such as {type(correction).__name__}")
    if level == "geometric":
        raise UserError(
            "verl does not support this recipe: its weights are of tokens or sequences, not geometric means"
        )
    return {
        "algorithm.rollout_correction.bypass_mode": correction is None,
        "algorithm.rollout_correction.rollout_is": level,
        "algorithm.rollout_correction.rollout_is_threshold": threshold,
        "algorithm.rollout_correction.rollout_is_batch_normalize": False,
        "algorithm.rollout_correction.rollout_rs": None,
    }


def _loss(recipe: Recipe) -> dict[str, Any]:
    objective, denominators = recipe.objective, denominators_of(recipe)
    surrogate = json.dumps(recipe.resolved()["objective"]["surrogate"])
    kind = type(objective.kl.estimator)
    if objective.kl.coef and kind not in _KL:
        raise UserError(f"verl does not support this recipe: it has no KL estimator such as {kind.__name__}")
    return {
        f"{_ACTOR}.policy_loss.loss_mode": RECIPE,
        f"ray_kwargs.ray_init.runtime_env.env_vars.{SURROGATE}": surrogate,
        f"{_ACTOR}.loss_agg_mode": denominators.mode,
        f"{_ACTOR}.loss_scale_factor": denominators.length,
        f"{_ACTOR}.use_kl_loss": objective.kl.coef > 0,
        f"{_ACTOR}.kl_loss_coef": objective.kl.coef,
        f"{_ACTOR}.kl_loss_type": _KL.get(kind, "low_var_kl"),
        f"{_ACTOR}.entropy_coeff": objective.entropy.bonus,
    }


def _optimizer(recipe: Recipe) -> dict[str, Any]:
    learn = recipe.learn
    return {
        f"{_ACTOR}.ppo_mini_batch_size": recipe.train.problems,  # times rollout.n, this is the maximum rows of a step
        f"{_ACTOR}.ppo_epochs": learn.epochs,
        f"{_ACTOR}.shuffle": False,
        f"{_ACTOR}.optim.optimizer": "AdamW",
        f"{_ACTOR}.optim.lr": learn.lr,
        f"{_ACTOR}.optim.betas": list(learn.betas),
        f"{_ACTOR}.optim.weight_decay": learn.weight_decay,
        f"{_ACTOR}.optim.clip_grad": learn.clip_norm,
        # with n warmup steps, verl's constant schedule starts at 0; a cosine with 0 cycles starts at lr / n instead
        f"{_ACTOR}.optim.lr_scheduler_type": "cosine",
        f"{_ACTOR}.optim.num_cycles": 0.0,
        f"{_ACTOR}.optim.zero_indexed_step": False,
        f"{_ACTOR}.optim.lr_warmup_steps": int(learn.warmup.split()[0]),
        f"{_ACTOR}.optim.lr_warmup_steps_ratio": 0.0,
    }


def _running(recipe: Recipe) -> dict[str, Any]:
    train, evaluate, prompt = recipe.train, recipe.evaluate, int(min(_LONGEST_PROMPT, _room(recipe)))
    once = train.steps if evaluate.after else -1
    return {
        "actor_rollout_ref.model.path": model_folder(recipe.model),
        "actor_rollout_ref.model.enable_gradient_checkpointing": recipe.learn.recomputes,
        f"{_ACTOR}.fsdp_config.dtype": recipe.policy.dtype,
        f"{_ROLLOUT}.dtype": recipe.policy.dtype,
        f"{_ROLLOUT}.tensor_model_parallel_size": 1,
        "data.max_prompt_length": prompt,
        "data.dataloader_num_workers": 0,
        f"{_ACTOR}.use_dynamic_bsz": True,
        f"{_ACTOR}.ppo_max_token_len_per_gpu": max(recipe.learn.tokens_of_a_pass, prompt + recipe.sample.max_tokens),
        f"{_ROLLOUT}.val_kwargs.n": evaluate.n,
        f"{_ROLLOUT}.val_kwargs.temperature": recipe.sample.temperature,
        f"{_ROLLOUT}.val_kwargs.do_sample": True,
        "trainer.val_before_train": evaluate.before,
        "trainer.test_freq": train.evaluate_every or once,
        "trainer.save_freq": train.save_every,
        "trainer.max_actor_ckpt_to_keep": train.keep,
        "trainer.logger": ["console", *train.trackers],
        "trainer.project_name": "outrider",
        "trainer.experiment_name": recipe.name,
        "trainer.total_epochs": 1,
    }


def _room(recipe: Recipe) -> float:
    """Return the maximum number of prompt tokens that the model's context allows; infinite if the context is
    unknown."""
    return float((local_config(recipe.model) or {}).get("max_position_embeddings", math.inf)) - recipe.sample.max_tokens


def _notes(recipe: Recipe) -> list[str]:
    """Return the differences between the recipe and verl that do not change the training."""
    notes = [
        "engine, sample.rows, sample.path and train.ranks are Outrider's own engines': verl has its keys for these"
    ]
    if _room(recipe) > _LONGEST_PROMPT:
        notes.append(
            f"prompts have at most {_LONGEST_PROMPT} tokens, even if a stage seeds them; "
            "data.max_prompt_length and ppo_max_token_len_per_gpu may be raised"
        )
    if recipe.evaluate.greedy:
        notes.append("evaluate.greedy: verl validates only with samples")
    if recipe.objective.kl.coef and isinstance(recipe.objective.kl.estimator, K3):
        notes.append("objective.kl: verl clips a token's k3 at 10 nats, Outrider does not")
    if denominators_of(recipe).weighted:
        notes.append("the advantages that verl logs are divided by the recipe's denominators, its loss is a plain sum")
    return notes
