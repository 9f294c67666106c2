"""Whole steps inside verl's own classes: its V1 trainer, replay buffer, TransferQueue (on Ray), registries, estimator
dispatch, rollout correction and PPO loss. Two things are not verl's: the servers, which answer from rollouts drawn
before, and the workers, whose log-probabilities are functions of a row.

Needs verl and TransferQueue (docs/verl.md says how), else skipped.
"""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import verl_cases as cases
from outrider.integrations.verl import RECIPE, SURROGATE, register_loss
from outrider.integrations.verl_config_command import verl_yaml

pytest.importorskip("verl")
tq = pytest.importorskip("transfer_queue")


@pytest.fixture(scope="module")
def queue(tmp_path_factory):
    """Verl's TransferQueue on a Ray of this process."""
    import ray

    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False, configure_logging=False)
    config = compose("grpo", tmp_path_factory.mktemp("queue"))
    config.transfer_queue.backend.SimpleStorage.num_data_storage_units = 1
    tq.init(config.transfer_queue)
    yield
    tq.close()
    ray.shutdown()


def compose(name: str, folder, *overrides: str):
    """Verl's configuration for a small step of a recipe, as ``outrider verl-config`` writes it."""
    import hydra
    from omegaconf import OmegaConf

    (folder / "recipe.yaml").write_text(verl_yaml(cases.small(name, *overrides)))
    with hydra.initialize_config_dir(str(folder), version_base=None):
        config = hydra.compose("recipe", overrides=["hydra.searchpath=[pkg://verl.trainer.config]"])
    config.trainer.default_local_dir = str(folder / "checkpoints")
    OmegaConf.resolve(config)
    return config


class Workers:
    """What the trainer asks of its workers: log-probabilities of rows, and an update by verl's own loss."""

    def __init__(self, config, cut: int) -> None:
        from verl.utils.config import omega_conf_to_dataclass

        self._dispatch_info = {"actor": [0]}
        self.actor, self.cut = omega_conf_to_dataclass(config.actor_rollout_ref.actor), cut
        self.losses: list[float] = []
        self.gradients: dict[tuple[bytes, bytes], list[np.ndarray]] = {}
        self.rows: list[tuple[bytes, bytes]] = []

    def compute_log_prob(self, batch):
        from tensordict import TensorDict

        data = self._data(batch.keys, batch.partition_id)
        learner = [torch.tensor(cases.moved(ids, old, 0.1, 1)) for _, ids, old in self._parts(data)]
        fields = {"log_probs": _whole(data, learner), "entropy": _whole(data, [torch.zeros(len(x)) for x in learner])}
        return tq.kv_batch_put(
            keys=batch.keys, partition_id=batch.partition_id, fields=TensorDict(fields, batch_size=len(batch))
        )

    def update_actor(self, batch):
        from verl.utils import tensordict_utils as tu
        from verl.workers.utils.losses import ppo_loss

        told, tokens = batch.extra_info, self._data(batch.keys, batch.partition_id)["loss_mask"].values().sum().item()
        assert len(batch) == told["mini_batch_size"]  # one optimizer batch
        for start in range(0, len(batch), self.cut):
            data = self._data(batch.keys[start : start + self.cut], batch.partition_id)
            tu.assign_non_tensor(data, dp_size=1, batch_num_tokens=tokens, global_batch_size=told["global_batch_size"])
            parts = list(self._parts(data))
            new = [torch.tensor(cases.moved(ids, old, 0.3, 2), dtype=torch.float64) for _, ids, old in parts]
            new = [leaf.requires_grad_() for leaf in new]
            loss, _ = ppo_loss(self.actor, {"log_probs": _whole(data, new)}, data)
            self.losses.append(loss.item())
            for (context, ids, _), gradient in zip(parts, torch.autograd.grad(loss, new), strict=True):
                key = (np.int32(context).tobytes(), np.int32(ids).tobytes())
                self.gradients.setdefault(key, []).append(gradient.numpy())
        return tu.get_tensordict({}, {"metrics": {"mfu": [0.0], "loss": [sum(self.losses)]}})

    @staticmethod
    def _data(keys, partition):
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


def trainer_for(config, client, cut: int):
    from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY
    from verl.trainer.ppo.v1 import get_trainer_cls
    from verl.utils.import_utils import load_class_from_fqn
    from verl.utils.skip import SkipManager

    trainer = get_trainer_cls(config.trainer.v1.trainer_mode)(config)
    trainer._init_tokenizer()
    trainer._init_dataloader()
    trainer.replay_buffer.poll_interval = 0.01
    trainer.global_steps, trainer.curr_step_profile = 1, False
    trainer.actor_rollout_wg = Workers(config, cut)
    trainer.checkpoint_manager = SimpleNamespace(sleep_replicas=lambda: None, update_weights=lambda *_: None)
    trainer.reward_loop_manager = SimpleNamespace(reward_loop_worker_handles=[])
    SkipManager.init(config)
    # a worker finds it in its environment when it imports verl
    POLICY_LOSS_REGISTRY.pop(RECIPE, None)
    register_loss(RECIPE, json.loads(config.ray_kwargs.ray_init.runtime_env.env_vars[SURROGATE]))
    manager = load_class_from_fqn(config.actor_rollout_ref.rollout.agent.agent_loop_manager_class)
    trainer.agent_loop_manager = manager.create(
        config=config, llm_client=client, teacher_client=None, reward_loop_worker_handles=[]
    )
    return trainer


@pytest.mark.parametrize("cut", [1000, 7])
@pytest.mark.parametrize("name", cases.METHODS)
def test_a_step_of_verls_trainer_is_the_local_one(queue, tmp_path, name, cut) -> None:
    """Explore, credit and loss on the same rollouts, to 1e-6, in one micro-batch or in many."""
    local = cases.local_step(cases.small(name))
    trainer = trainer_for(compose(name, tmp_path), cases.Recorded(local.rollouts), cut)
    metrics: dict = {}
    batch = trainer.step(metrics, {})
    workers = trainer.actor_rollout_wg
    expected, gradients = cases.local_loss(local)
    assert sum(workers.losses) == pytest.approx(expected, abs=1e-6)
    by_row: dict = {}
    for (context, ids, _), gradient in gradients.items():
        by_row.setdefault((context, ids), []).append(gradient)
    scale = max(np.abs(g).max() for g in gradients.values())
    for key, mine in by_row.items():
        theirs = workers.gradients[key]
        assert len(theirs) == len(mine)  # equal rows are of equal gradients, in any order
        for a, b in zip(sorted(mine, key=np.sum), sorted(theirs, key=np.sum), strict=True):
            np.testing.assert_allclose(b, a, atol=1e-6 * scale)
    real = [tag for tag in batch.tags if not tag.get("is_padding", False)]
    assert len(real) == len(local.rows)
    padding = [g for key, group in workers.gradients.items() if key not in by_row for g in group]
    assert len(padding) == len(batch.tags) - len(real)
    assert not any(g.any() for g in padding)
    tq.kv_clear(keys=batch.keys, partition_id="train")
    assert not tq.kv_list().get("train")  # nothing is left behind
