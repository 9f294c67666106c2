"""Verl's trainer with the two parts replaced that need GPUs: servers, and workers."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
import verl_cases as cases

from outrider.integrations.verl import RECIPE, SURROGATE, register_loss
from outrider.integrations.verl_config_command import verl_yaml


def compose(name: str, folder, *overrides: str):
    """Verl's configuration for a small step of a recipe, as ``outrider verl-config`` writes it."""
    import hydra
    from omegaconf import OmegaConf

    folder.mkdir(exist_ok=True)
    (folder / "recipe.yaml").write_text(verl_yaml(cases.small(name, *overrides)))
    with hydra.initialize_config_dir(str(folder), version_base=None):
        config = hydra.compose("recipe", overrides=["hydra.searchpath=[pkg://verl.trainer.config]"])
    config.trainer.default_local_dir = str(folder / "checkpoints")
    OmegaConf.resolve(config)
    return config


class Workers:
    """What the trainer asks of its workers: log-probabilities of rows, and an update by verl's own loss."""

    def __init__(self, config, cut: int, ranks: int) -> None:
        from verl.utils.config import omega_conf_to_dataclass

        self._dispatch_info = {"actor": list(range(ranks))}
        self.ranks = ranks
        self.actor, self.cut = omega_conf_to_dataclass(config.actor_rollout_ref.actor), cut
        self.losses: list[float] = []
        self.gradients: dict[tuple[bytes, bytes], list[np.ndarray]] = {}
        self.rows: list[tuple[bytes, bytes]] = []

    def compute_log_prob(self, batch):
        return self._log_probs(batch, 0.1, 1)

    def compute_ref_log_prob(self, batch):
        return self._log_probs(batch, 0.2, 3)

    def _log_probs(self, batch, by: float, seed: int):
        import transfer_queue as tq
        from tensordict import TensorDict

        data = self._data(batch.keys, batch.partition_id)
        learner = [torch.tensor(cases.moved(ids, old, by, seed)) for _, ids, old in self._parts(data)]
        fields = {"log_probs": _whole(data, learner), "entropy": _whole(data, [torch.zeros(len(x)) for x in learner])}
        return tq.kv_batch_put(
            keys=batch.keys, partition_id=batch.partition_id, fields=TensorDict(fields, batch_size=len(batch))
        )

    def update_actor(self, batch):
        from verl.utils import tensordict_utils as tu
        from verl.workers.utils.losses import ppo_loss

        told, tokens = batch.extra_info, self._data(batch.keys, batch.partition_id)["loss_mask"].values().sum().item()
        assert len(batch) == told["mini_batch_size"]  # one optimizer batch
        share = len(batch) // self.ranks  # each rank has a part of the rows in turn, and gradients are averaged
        for start in (at for rank in range(self.ranks) for at in range(rank * share, (rank + 1) * share, self.cut)):
            end = min(start + self.cut, (start // share + 1) * share)
            data = self._data(batch.keys[start:end], batch.partition_id)
            tu.assign_non_tensor(
                data, dp_size=self.ranks, batch_num_tokens=tokens, global_batch_size=told["global_batch_size"]
            )
            parts = list(self._parts(data))
            new = [torch.tensor(cases.moved(ids, old, 0.3, 2), dtype=torch.float64) for _, ids, old in parts]
            new = [leaf.requires_grad_() for leaf in new]
            given = {"log_probs": _whole(data, new)}
            if told["calculate_entropy"]:
                entropies = [torch.tensor(cases.moved(ids, -old, 0.2, 4)) for _, ids, old in parts]
                given["entropy"] = _whole(data, entropies)
            loss, _ = ppo_loss(self.actor, given, data)
            self.losses.append(loss.item() / self.ranks)
            for (context, ids, _), gradient in zip(parts, torch.autograd.grad(loss / self.ranks, new), strict=True):
                key = (np.int32(context).tobytes(), np.int32(ids).tobytes())
                self.gradients.setdefault(key, []).append(gradient.numpy())
        return tu.get_tensordict({}, {"metrics": {"mfu": [0.0], "loss": [sum(self.losses)]}})

    @staticmethod
    def _data(keys, partition):
        import transfer_queue as tq

        return tq.kv_batch_get(keys=list(keys), partition_id=partition)

    @staticmethod
    def _parts(data):
        for prompt, response, old in zip(data["prompts"], data["responses"], data["rollout_log_probs"], strict=True):
            yield prompt.numpy(), response.numpy(), old.numpy()


def _whole(data, responses):
    """What a model gives for prompts and responses, one place ahead: each token is predicted at the one before."""
    rows = []
    for prompt, response in zip(data["prompts"], responses, strict=True):
        rows.append(torch.cat([response.new_zeros(len(prompt) - 1), response, response.new_zeros(1)]))
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def trainer_for(config, client, cut: int, ranks: int = 1):
    from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY
    from verl.trainer.ppo.v1 import get_trainer_cls
    from verl.utils.skip import SkipManager

    trainer = get_trainer_cls(config.trainer.v1.trainer_mode)(config)
    trainer._init_tokenizer()
    trainer._init_dataloader()
    trainer.replay_buffer.poll_interval = 0.01
    trainer.global_steps, trainer.curr_step_profile = 1, False
    trainer.actor_rollout_wg = trainer.ref_policy_wg = Workers(config, cut, ranks)
    trainer.ref_in_actor = False
    trainer.checkpoint_manager = SimpleNamespace(sleep_replicas=lambda: None, update_weights=lambda *_: None)
    trainer.reward_loop_manager = SimpleNamespace(reward_loop_worker_handles=[])
    SkipManager.init(config)
    # a worker finds it in its environment when it imports verl
    POLICY_LOSS_REGISTRY.pop(RECIPE, None)
    register_loss(RECIPE, json.loads(config.ray_kwargs.ray_init.runtime_env.env_vars[SURROGATE]))
    trainer.get_llm_client, trainer.get_teacher_client, trainer.get_reward_handles = lambda: client, lambda: None, list
    trainer.agent_loop_manager = manager_of(config, trainer)
    return trainer


def manager_of(config, trainer):
    """As verl's task runner makes it, in the process of the trainer."""
    from verl.trainer.main_ppo import TaskRunnerV1

    runner = TaskRunnerV1.__ray_metadata__.modified_class()
    runner.config, runner.trainer = config, trainer
    runner.init_agent_loop_manager()
    return runner.agent_loop_manager


def apart(local, workers) -> tuple[float, float]:
    """How far losses are from each other, and gradients as a share of the largest."""
    expected, gradients = cases.local_loss(local)
    by_row: dict = {}
    for (context, ids, _), gradient in gradients.items():
        by_row.setdefault((context, ids), []).append(gradient)
    differences = []
    for key, group in workers.gradients.items():
        mine = by_row.get(key, [np.zeros_like(gradient) for gradient in group])  # of rows that fill up: none
        assert len(mine) == len(group)
        # equal rows of a group may have come in any order
        ordered = zip(sorted(mine, key=np.sum), sorted(group, key=np.sum), strict=True)
        differences += [np.abs(a - b).max() for a, b in ordered]
    assert by_row.keys() <= workers.gradients.keys()
    return abs(sum(workers.losses) - expected), max(differences) / max(np.abs(g).max() for g in gradients.values())


def step_in_a_process(name: str, folder: str, override: str) -> tuple[float, float]:
    """A whole step in a process of Ray's, as verl's task runner is one; and how far it is from the local one."""
    import transfer_queue as tq

    tq.init()
    local = cases.local_step(cases.small(name, override))
    trainer = trainer_for(compose(name, Path(folder), override), cases.Recorded(local.rollouts), 20)
    batch = trainer.step({}, {})
    tq.kv_clear(keys=batch.keys, partition_id="train")
    assert any(row.has_signal for row in local.rows)
    return apart(local, trainer.actor_rollout_wg)
