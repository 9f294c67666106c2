"""The rollout manager for verl's V1 trainer. The manager samples and verifies the rollouts that a recipe requests.
Experimental.

No training with verl has been run. docs/verl.md lists the parts of this integration that have been run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from outrider.config import Recipe
from outrider.errors import UserError
from outrider.integrations.verl import RECIPE
from outrider.integrations.verl_config import recipe_of, verl_settings
from outrider.integrations.verl_records import Records
from outrider.integrations.verl_rows import put_rows, queued, session_keys
from outrider.integrations.verl_sampler import Client, VerlSampler
from outrider.integrations.verl_step import StepMaker
from outrider.model.load import load_policy
from outrider.record.disk import write_atomically
from outrider.record.row import row_of

VERL = "0.9.1"
_STATE = "outrider.json"


class ExploreManager:
    """The class for verl's ``actor_rollout_ref.rollout.agent.agent_loop_manager_class``.

    Verl passes a batch of prompts to the manager, and waits for rows with the ``uid`` of these prompts. From a training
    batch, the manager uses only the step number and the ``uid`` of each prompt, since the recipe's task provides the
    problems. The manager runs the stages of the recipe one after another: for each stage, it plans requests, samples
    rollouts and verifies them.

    Args:
        config: verl's whole configuration, as written by ``outrider verl-config``.
        client: client of verl's inference servers.
    """

    def __init__(self, config: Any, client: Client) -> None:
        self.config = config
        self.recipe = recipe_of(config.data.get("outrider"))
        _refuse_other_method(config, self.recipe)
        rollout = config.actor_rollout_ref.rollout
        # the part of the model that planning needs, without weights, since other processes run the model
        policy = load_policy(str(config.actor_rollout_ref.model.path), self.recipe.policy, device=torch.device("meta"))
        context = rollout.max_model_len or rollout.prompt_length + rollout.response_length
        self.step = StepMaker(self.recipe, policy, VerlSampler(client, policy, self.recipe.sample, int(context)))
        self.records = Records(Path(config.trainer.default_local_dir) / "outrider", self.recipe)
        self._done: int | None = None  # finished steps; None until the first batch shows where the run continues

    @classmethod
    def create(
        cls, config: Any, llm_client: Client, teacher_client: Any = None, reward_loop_worker_handles: Any = None
    ) -> ExploreManager:
        """Create the manager for verl, and register its advantage estimator in the process of verl's trainer.

        Raises:
            UserError: the configuration does not match the recipe, or verl's version differs from ``VERL`` in more than
                the patch number.
        """
        import verl
        from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY

        if verl.__version__.split(".")[:2] != VERL.split(".")[:2]:
            raise UserError(f"this is verl {verl.__version__}, and the manager was written and tested with {VERL}")
        manager = cls(config, llm_client)
        ADV_ESTIMATOR_REGISTRY[RECIPE] = manager.step.advantages.estimator  # a new manager's estimator replaces it
        manager.step.explorer.prepare()
        return manager

    def generate_sequences(self, prompts: Any) -> None:
        """Sample and verify the rollouts for one of verl's batches, and put their rows into the TransferQueue.

        Raises:
            UserError: the batch does not belong to the next step, or :meth:`StepMaker.make` raises this error.
        """
        uids, step = [str(uid) for uid in prompts["uid"]], int(prompts["global_steps"])
        validating = bool(prompts["validate"]) if "validate" in prompts else False
        if validating:
            self._validate(uids, [int(i) for i in prompts["index"]], step)
        else:
            self._train(uids, step)

    def save(self, folder: Path) -> None:
        """Save all state that the next step needs, except the weights."""
        state = {"step": self._done, "recipe": self.recipe.fingerprint(), "state": self.step.state_dict()}
        self.records.sync()
        write_atomically(folder / _STATE, json.dumps(state).encode())

    def _train(self, uids: Sequence[str], step: int) -> None:
        if len(uids) != self.recipe.train.problems:
            raise UserError(
                f"verl asks for {len(uids)} prompts, and a step of the recipe has {self.recipe.train.problems}"
            )
        if self._done is None:
            if step > 1:
                self._load(step - 1)
            self.records.begin(step - 1)
        if self._done not in (None, step - 1):
            raise UserError(f"verl asks for step {step} after step {self._done}")
        made = self.step.make(step)
        self.records.write(step, made)
        keys = session_keys(uids, [row.group for row in made.rows])
        rows = [
            queued(row, key, uid, step, step - 1, {"acc": float(row.success)})
            for row, key, uid in zip(made.rows, keys, made.uids, strict=True)
        ]
        put_rows(rows, uids, "train")
        self._done = step

    def _validate(self, uids: Sequence[str], indices: Sequence[int], step: int) -> None:
        values = self.config.actor_rollout_ref.rollout.val_kwargs
        groups = self.step.validation(indices, values.n, values.temperature, step)
        rows = []
        for uid, rollouts in zip(uids, groups, strict=True):
            for session, r in enumerate(rollouts):
                row = row_of(r, np.zeros(r.trainable_tokens), r.prompt_ids)
                version, also = self.step.sampler.version, {"acc": float(r.success)}
                rows.append(queued(row, f"{uid}_{session}_0", uid, step, version, also))
        put_rows(rows, uids, "val")

    def _load(self, step: int) -> None:
        """Load the state that was saved with the checkpoint after ``step``."""
        trainer = self.config.trainer
        path = Path(trainer.default_local_dir) / f"global_step_{step}"
        if trainer.resume_mode == "resume_path":
            path = Path(trainer.resume_from_path)
        file = path / _STATE
        if not file.is_file():
            raise UserError(
                f"verl continues after step {step}, but {file} is missing, so the state of exploration is unknown"
            )
        state = json.loads(file.read_bytes())
        if state["step"] != step or state["recipe"] != self.recipe.fingerprint():
            raise UserError(f"{file} belongs to another recipe, or to another step than {step}")
        self.step.load_state_dict(state["state"])
        self._done = step


class SaveExplorer:
    """The class for verl's ``trainer.checkpoint_callback_class``. The class adds Outrider's state, such as the state of
    the recipe's stages, to each checkpoint.
    """

    def __init__(self, config: Any = None) -> None:
        self.config = config

    def on_save(self, trainer: Any, global_step: int, checkpoint_dir: str, **also: Any) -> None:
        """Save Outrider's state. Verl calls this method after it has written a checkpoint."""
        trainer.agent_loop_manager.save(Path(checkpoint_dir))


def _refuse_other_method(config: Any, recipe: Recipe) -> None:
    """Raise UserError if a key that the recipe fixes (``verl_settings(recipe).method``) has another value in verl's
    configuration.
    """
    from omegaconf import OmegaConf

    for key, expected in verl_settings(recipe).method.items():
        found = OmegaConf.select(config, key)
        found = OmegaConf.to_container(found) if OmegaConf.is_config(found) else found
        if found != expected:
            raise UserError(
                f"{key} is {found!r}, and with this recipe it has to be {expected!r}; change the recipe instead"
            )
