"""Whole steps inside verl's own classes: its V1 trainer, replay buffer, TransferQueue (on Ray), registries, estimator
dispatch, rollout correction and PPO loss. Two things are not verl's: the servers, which answer from rollouts drawn
before, and the workers, whose log-probabilities are functions of a row.

Needs verl and TransferQueue (docs/verl.md says how), else skipped.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import verl_cases as cases
from verl_trainer import apart, compose, step_in_a_process, trainer_for

from outrider.errors import UserError
from outrider.integrations import verl_manager, verl_step
from outrider.runs.folder import RunFolder

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


@pytest.mark.parametrize(("cut", "ranks"), [(1000, 1), (7, 1), (9, 2)])
@pytest.mark.parametrize("name", cases.METHODS)
def test_a_step_of_verls_trainer_is_the_local_one(queue, tmp_path, name, cut, ranks) -> None:
    """Explore, credit and loss on the same rollouts, to 1e-6, in one micro-batch or in many, over ranks."""
    local = cases.local_step(cases.small(name))
    client = cases.Recorded(local.rollouts)
    trainer = trainer_for(compose(name, tmp_path), client, cut, ranks)
    batch = trainer.step({}, {})
    assert max(apart(local, trainer.actor_rollout_wg)) < 1e-6
    assert len(client.asked) == len(local.rollouts)
    padding = [tag for tag in batch.tags if tag.get("is_padding", False)]
    assert len(batch) - len(padding) == len(local.rows)
    assert bool(padding) == (name != "grpo")
    tq.kv_clear(keys=batch.keys, partition_id="train")
    assert not tq.kv_list().get("train")  # nothing is left behind


OTHERS = {
    "the sampler is the old policy": ("grpo", "objective.correction=null"),
    "the learner is the old policy": ("grpo", "objective.correction=recompute"),
    "weights of responses": ("grpo", "objective.correction={truncate: {level: sequence, cap: 1.5}}"),
    "masked weights": ("grpo", "objective.correction={mask: {level: token, low: 0.9, high: 1.1}}"),
    "a KL and a token mean": ("grpo", "objective={kl: 0.04, aggregate: token_mean}"),
    "a KL and a sequence mean": ("grpo", "objective={kl: 0.04, aggregate: sequence_mean}"),
    "a KL by k2 and a constant": ("dr-grpo", "objective.kl={coef: 0.04, estimator: k2}"),
    "a KL and waves": ("dars-hw", "objective={kl: 0.04, aggregate: token_mean}"),
    "a bonus": ("dars-hw", "objective={entropy: {bonus: 0.5}, aggregate: token_mean}"),
    "a bonus and a constant": ("dr-grpo", "objective.entropy.bonus=0.5"),
    "another temperature": ("deep-grpo", "sample.temperature=0.8"),
    "greedy responses that are not trained": ("remax", "objective.kl=0"),
    "a batch baseline": ("reinforce-pp", "objective.kl=0"),
    "one ratio of a response": ("gspo", "learn.minibatches=1"),
    "a soft gate": ("sapo", "learn.minibatches=1"),
    "prefixes trained again": ("deep-grpo", "objective.prefix=repeat"),
    "prefixes trained once": ("deep-grpo", "objective.prefix=count_once"),
    "branches of second waves": ("dars-pivots", "objective.kl=0"),
    "values over a tree": ("treerl", "objective.kl=0"),
    "planned by uncertainty": ("xrpo-no-icl", "explore.1.total=48"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_what_is_carried_is_carried_exactly(queue, tmp_path, case) -> None:
    name, override = OTHERS[case]
    local = cases.local_step(cases.small(name, override))
    trainer = trainer_for(compose(name, tmp_path, override), cases.Recorded(local.rollouts), 20)
    batch = trainer.step({}, {})
    assert any(row.has_signal for row in local.rows)
    assert trainer.actor_rollout_wg.losses
    assert max(apart(local, trainer.actor_rollout_wg)) < 1e-6
    tq.kv_clear(keys=batch.keys, partition_id="train")


def break_group_size(patch, trainer) -> None:
    """A hidden 1/G."""
    real = verl_step.advantages_for

    def per_group(rows, *others):
        size = Counter(row.group for row in rows)
        return [a / size[row.group] for row, a in zip(rows, real(rows, *others), strict=True)]

    patch.setattr(verl_step, "advantages_for", per_group)


def break_denominator(patch, trainer) -> None:
    """Verl's own token mean over the weighed advantages."""
    trainer.actor_rollout_wg.actor = dataclasses.replace(trainer.actor_rollout_wg.actor, loss_agg_mode="token-mean")


def break_streams(patch, trainer) -> None:
    """All rows in one stream."""
    real = verl_step.advantages_for

    def one_stream(rows, *others):
        return real([dataclasses.replace(row, stream="main") for row in rows], *others)

    patch.setattr(verl_step, "advantages_for", one_stream)


def break_prefix(patch, trainer) -> None:
    """A branch is trained without what it continues."""
    real = verl_manager.queued

    def without(row, *others):
        return real(dataclasses.replace(row, context_ids=row.context_ids[:14]), *others)

    patch.setattr(verl_manager, "queued", without)


def break_by_dropping(patch, trainer) -> None:
    """A branch does not arrive."""
    real = verl_manager.put_rows
    patch.setattr(verl_manager, "put_rows", lambda rows, *others: real(rows[:-1], *others))


def break_sessions(patch, trainer) -> None:
    """A second wave counts its sessions from 0 again, as each call of verl's own workers does."""
    real = verl_manager.put_rows

    def in_two(rows, *others):
        real(rows[:-3], *others)
        real([late._replace(key=early.key) for early, late in zip(rows, rows[-3:], strict=False)], *others)

    patch.setattr(verl_manager, "put_rows", in_two)


@pytest.mark.parametrize("broken", [break_group_size, break_denominator, break_streams, break_prefix])
def test_what_is_broken_on_purpose_is_seen(queue, tmp_path, monkeypatch, broken) -> None:
    local = cases.local_step(cases.small("deep-grpo"))
    trainer = trainer_for(compose("deep-grpo", tmp_path), cases.Recorded(local.rollouts), 20)
    broken(monkeypatch, trainer)
    batch = trainer.step({}, {})
    tq.kv_clear(keys=batch.keys, partition_id="train")
    with pytest.raises(AssertionError):
        assert max(apart(local, trainer.actor_rollout_wg)) < 1e-6


@pytest.mark.parametrize("broken", [break_by_dropping, break_sessions])
def test_what_is_lost_on_purpose_ends_the_run(queue, tmp_path, monkeypatch, broken) -> None:
    local = cases.local_step(cases.small("deep-grpo"))
    trainer = trainer_for(compose("deep-grpo", tmp_path), cases.Recorded(local.rollouts), 20)
    broken(monkeypatch, trainer)
    with pytest.raises(UserError, match="missing, such as train:1:"):
        trainer.step({}, {})
    tq.kv_clear(keys=list(tq.kv_list()["train"]), partition_id="train")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("algorithm.adv_estimator", "grpo"),
        ("actor_rollout_ref.actor.loss_agg_mode", "token-mean"),
        ("actor_rollout_ref.actor.policy_loss.loss_mode", "vanilla"),
        ("actor_rollout_ref.actor.entropy_coeff", 0.1),
        ("actor_rollout_ref.actor.ppo_mini_batch_size", 3),
        ("actor_rollout_ref.rollout.temperature", 0.7),
        ("algorithm.use_kl_in_reward", True),
        ("algorithm.filter_groups.enable", True),
        ("trainer.v1.trainer_mode", "colocate_async"),
        ("data.shuffle", True),
    ],
)
def test_a_key_of_the_method_cannot_be_changed_behind_the_recipe(tmp_path, key, value) -> None:
    from omegaconf import OmegaConf

    config = compose("deep-grpo", tmp_path)
    OmegaConf.update(config, key, value)
    with pytest.raises(UserError, match=f"^{key} is {value!r}, and with this recipe it has to be "):
        verl_manager.ExploreManager.create(config, cases.Recorded([]))


def test_another_verl_is_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("verl.__version__", "0.10.0")
    with pytest.raises(UserError, match=r"this is verl 0\.10\.0"):
        verl_manager.ExploreManager.create(compose("grpo", tmp_path), cases.Recorded([]))


def test_a_run_goes_on_where_its_checkpoint_was(queue, tmp_path) -> None:
    """Step 2 of a new process, from what verl's callback has saved, asks for what step 2 of one run asks for."""
    from verl.trainer.ppo.checkpoint_callback import build_checkpoint_callback

    first, second = (cases.local_step(cases.small("deep-grpo"), steps) for steps in (1, 2))
    config = compose("deep-grpo", tmp_path)
    saved = tmp_path / "checkpoints/global_step_1"
    saved.mkdir(parents=True)
    trainer = trainer_for(config, cases.Recorded(first.rollouts), 1000)
    tq.kv_clear(keys=trainer.step({}, {}).keys, partition_id="train")

    client = cases.Recorded(second.rollouts, version=1)
    again = trainer_for(config, client, 1000)
    again.global_steps = 2
    with pytest.raises(UserError, match=r"after step 1, but .*global_step_1/outrider\.json is not there"):
        again.step({}, {})
    tq.kv_clear(keys=list(tq.kv_list()["train"]), partition_id="train")
    build_checkpoint_callback(config).on_save(trainer=trainer, global_step=1, checkpoint_dir=str(saved))
    trainer.agent_loop_manager.records.close()  # as the end of its process does
    tq.kv_clear(keys=again.step({}, {}).keys, partition_id="train")
    assert max(apart(second, again.actor_rollout_wg)) < 1e-6
    records = RunFolder.existing(tmp_path / "checkpoints/outrider")
    assert [line["step"] for line in records.metrics()] == [1, 2]
    recorded = records.rollouts.read(2)
    assert [r.id for r in recorded] == [r.id for r in second.rollouts]
    np.testing.assert_allclose([r.advantage or 0 for r in recorded], [r.advantage or 0 for r in second.rollouts], 1e-6)
    assert sorted(client.asked) == sorted(((*r.prompt_ids, *r.prefix_ids), r.seed) for r in second.rollouts)


def test_validation_is_of_the_tasks_own_problems(queue, tmp_path) -> None:
    rollouts = cases.local_evaluation(cases.small("grpo"))
    trainer = trainer_for(compose("grpo", tmp_path), cases.Recorded(rollouts), 1000)
    trainer.global_steps = 0
    measured = trainer._validate()
    found = measured["val-core/outrider/acc/mean@2"]
    assert found == pytest.approx(np.mean([rollout.success for rollout in rollouts]))
    assert measured["val-aux/outrider/reward/mean@2"] == pytest.approx(np.mean([r.reward for r in rollouts]))


def test_verls_whole_loop_runs_over_the_manager(queue, tmp_path, monkeypatch) -> None:
    """``fit``: validation, two steps with their metrics and checkpoints, and validation again; nothing is trained."""
    short = ["train.steps=2", "train.save_every=1", "train.trackers=[]"]
    recipe = cases.small("deep-grpo", *short)
    drawn = [*cases.local_evaluation(recipe), *(r for n in (1, 2) for r in cases.local_step(recipe, n).rollouts)]
    client = cases.Recorded(drawn)
    trainer = trainer_for(compose("deep-grpo", tmp_path, *short), client, 1000)
    trainer.global_steps = 0
    trainer.checkpoint_manager.update_weights = lambda version: setattr(client, "version", version)
    trainer.resource_pool_manager = SimpleNamespace(get_n_gpus=lambda: 1)
    trainer.actor_rollout_wg.save_checkpoint = lambda *arguments, **options: None
    trainer._init_dump_executor()
    logged = []
    monkeypatch.setattr("verl.utils.tracking.Tracking.log", lambda self, data, step, **_: logged.append((step, data)))
    trainer.fit(trainer.agent_loop_manager)
    assert [step for step, _ in logged] == [0, 1, 2]
    assert "val-core/outrider/acc/mean@2" in logged[0][1].keys() & logged[2][1].keys()
    for step in (1, 2):
        state = json.loads((tmp_path / f"checkpoints/global_step_{step}/outrider.json").read_text())
        assert state["step"] == step
        groups = cases.local_step(recipe, step).groups
        kept = [r.reward for g in groups for r in g.rollouts if r.trainable_tokens]
        assert logged[step][1]["critic/score/mean"] == pytest.approx(np.mean(kept))
        assert logged[step][1]["training/off_policy/trajectory_staleness/mean"] == 0
    assert not any(tq.kv_list().values())


def test_a_step_runs_in_a_process_of_rays(queue, tmp_path) -> None:
    """Where verl runs it: verifiers in processes of their own and drawing in a thread work there as here."""
    import ray

    remote = ray.remote(step_in_a_process).options(runtime_env={"env_vars": {"PYTHONPATH": ":".join(sys.path)}})
    found = ray.get(remote.remote("deep-grpo", str(tmp_path), "objective.kl=0"), timeout=120)
    assert max(found) < 1e-6


def test_verls_own_client_asks_its_servers(queue, tmp_path) -> None:
    """Through verl's client and its load balancer, from two servers."""
    import ray
    from verl.workers.rollout.llm_server import LLMServerClient
    from verl.workers.rollout.router import GlobalRequestLoadBalancer

    local = cases.local_step(cases.small("deep-grpo"))
    config = compose("deep-grpo", tmp_path)
    here = {"env_vars": {"PYTHONPATH": ":".join(sys.path)}}
    servers = [ray.remote(cases.Server).options(runtime_env=here).remote(local.rollouts) for _ in "ab"]
    balancer = ray.remote(GlobalRequestLoadBalancer).remote(dict(zip("ab", servers, strict=True)))
    client = LLMServerClient(config, balancer)
    trainer = trainer_for(config, client, 1000)
    batch = trainer.step({}, {})
    tq.kv_clear(keys=batch.keys, partition_id="train")
    assert max(apart(local, trainer.actor_rollout_wg)) < 1e-6
    counts = [ray.get(server.asked.remote()) for server in servers]
    assert sum(counts) == len(local.rollouts)
    assert min(counts) > 0
