"""Chains and surrogates in verl's own registries. Needs verl (docs/use-outside.md says how), else skipped."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from outrider.credit import GroupMean, LeaveOneOut, Members, advantages_of
from outrider.errors import UserError
from outrider.integrations.verl import PREFIX, SURROGATE, estimator, policy_loss, register_chain, register_loss

NAMES = iter(f"outrider_test_{i}" for i in range(100))  # verl's registry refuses a name that it has


@pytest.fixture(scope="module")
def core():
    return pytest.importorskip("verl.trainer.ppo.core_algos")


def batch(seed: int = 0) -> dict:
    """Ragged groups, their rows shuffled; the reward stands at a row's last token, as in verl."""
    rng = np.random.default_rng(seed)
    uid = rng.permutation(np.repeat(["a", "b", "c", "d"], [1, 3, 5, 4]).astype(object))
    lengths = rng.integers(1, 8, len(uid))
    mask = torch.tensor(np.arange(8) < lengths[:, None], dtype=torch.float32)
    scores = torch.zeros(len(uid), 8)
    scores[torch.arange(len(uid)), torch.tensor(lengths) - 1] = torch.tensor(rng.integers(0, 2, len(uid))).float()
    return {"token_level_rewards": scores, "response_mask": mask, "index": uid, "config": None}


def by_hand(chain, given: dict) -> np.ndarray:
    mask, uid = given["response_mask"].numpy() > 0, given["index"]
    rewards = given["token_level_rewards"].sum(1).double().numpy()
    found = np.zeros(mask.shape)
    for key in dict.fromkeys(uid):
        rows = np.flatnonzero(uid == key)
        members = Members(rewards[rows], rewards[rows] > 0, mask[rows].sum(1))
        for row, a in zip(rows, advantages_of(chain, [members])[0], strict=True):
            found[row, mask[row]] = a
    return found


@pytest.mark.parametrize("chain", [[GroupMean()], [LeaveOneOut()]], ids=["group_mean", "leave_one_out"])
def test_an_estimator_gives_the_advantages_of_its_chain(chain) -> None:
    given = batch()
    found, returns = estimator(chain)(**given)
    np.testing.assert_allclose(found.numpy(), by_hand(chain, given), atol=1e-6)
    assert found.dtype == given["token_level_rewards"].dtype
    assert torch.equal(found, returns)
    assert found is not returns


def test_success_is_read_off_a_threshold_if_one_is_given() -> None:
    """Rewards of 0.2 and 0.9 are no verdicts; with a threshold MaxRL divides by the half that succeeds."""
    given = batch() | {"index": np.array(["a", "a"]), "response_mask": torch.ones(2, 1)}
    given["token_level_rewards"] = torch.tensor([[0.2], [0.9]])
    with pytest.raises(UserError, match="success is required"):
        estimator(["maxrl"])(**given)
    found, _ = estimator(["maxrl"], success_above=0.5)(**given)
    assert found.ravel().tolist() == pytest.approx([-0.7, 0.7])  # (0.2 - 0.55) / (1 / 2)


def test_what_verl_does_not_pass_on_is_refused_before_a_run() -> None:
    for chain, reason in (
        (["group_mean", "perplexity"], "verl does not provide enough for this chain: .* log-probability"),
        (["group_mean", "novelty"], "verl does not provide enough for this chain: .* log-probability"),
        (["group_mean", "entropy_advantage"], "verl does not provide enough for this chain: .* entropy"),
        (["greedy"], "compares with the rollouts of a stage 'greedy', which verl does not draw"),
        (
            ["group_mean", {"position": {"first_step": 200}}],
            "not provide enough for this chain: .* training step",
        ),
    ):
        with pytest.raises(UserError, match=reason):
            estimator(chain)
    with pytest.raises(UserError, match="no uid"):
        estimator(["group_mean"])(**(batch() | {"index": None}))
    with pytest.raises(UserError, match="surrogate: 'sapi' is not a surrogate"):
        policy_loss("sapi")
    with pytest.raises(UserError, match="verl gives a loss only the sampled one"):
        policy_loss("simko")


def test_a_chain_that_needs_large_groups_is_no_chain_that_needs_more_than_verl_has() -> None:
    """One success of 16, k = 8, which is more than the group that a registration is tried on has failures."""
    given = {"token_level_rewards": torch.eye(16)[:, :1], "response_mask": torch.ones(16, 1), "index": np.zeros(16)}
    found, _ = estimator([{"passk": {"k": 8}}])(**given)
    assert found.ravel().tolist() == pytest.approx([1.0, *[-1 / 15] * 15], abs=1e-5)  # half of all subsets solve it


def test_a_chain_is_found_under_its_name(core) -> None:
    name = next(NAMES)
    register_chain(name, [{"group_mean": {"std": False}}, {"polarity": {"positive": 0.5}}])
    given = batch(1)
    found, _ = core.get_adv_estimator_fn(name)(**given)
    centred = by_hand([GroupMean(std=False)], given)
    success = given["token_level_rewards"].sum(1).numpy()[:, None] > 0
    np.testing.assert_allclose(found.numpy(), np.where(success, centred / 2, centred), atol=1e-6)


def test_verl_trainer_calls_it_as_it_calls_its_own(core) -> None:
    ray_trainer = pytest.importorskip("verl.trainer.ppo.ray_trainer")
    from verl import DataProto

    name, given = next(NAMES), batch(2)
    register_chain(name, ["leave_one_out"])
    tensors = {key: given[key] for key in ("token_level_rewards", "response_mask")}
    data = DataProto.from_dict(tensors=tensors, non_tensors={"uid": given["index"]})
    told = ray_trainer.compute_advantage(data, name, config=None)
    np.testing.assert_allclose(told.batch["advantages"].numpy(), by_hand([LeaveOneOut()], given), atol=1e-6)


@pytest.mark.parametrize("mode", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum-norm"])
def test_a_loss_is_aggregated_as_verl_does(core, mode) -> None:
    """PPO's clip written out, over the tokens of the mask; with weights of a rollout correction."""
    generator = torch.Generator().manual_seed(0)
    mask = batch()["response_mask"]
    old, new = (-torch.rand(mask.shape, generator=generator) for _ in range(2))
    advantages, weights = (torch.randn(mask.shape, generator=generator) for _ in range(2))
    new.requires_grad_()
    name = next(NAMES)
    register_loss(name, {"clip": [0.2, 0.28]})
    loss, marks = core.get_policy_loss_fn(name)(old, new, advantages, mask, mode, None, weights)
    ratio = (new - old).exp()
    clipped = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.28) * advantages) * weights
    expected = core.agg_loss(-clipped, mask, mode)
    torch.testing.assert_close(loss, expected)
    assert set(marks) == {"actor/clip_low", "actor/clip_high"}
    [gradient], [wanted] = torch.autograd.grad(loss, new), torch.autograd.grad(expected, new)
    torch.testing.assert_close(gradient, wanted)
    assert not gradient[mask == 0].any()


def test_the_plug_in_registers_the_defaults(core) -> None:
    """Through the variable that verl reads, in a process that imports verl alone."""
    code = (
        "import verl\nfrom verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, POLICY_LOSS_REGISTRY\n"
        "print(*ADV_ESTIMATOR_REGISTRY, *POLICY_LOSS_REGISTRY)"
    )
    surrogate = '{"clip": {"low": 0.2, "high": 0.28}}'  # as a file of `outrider verl-config` sets it
    environment = os.environ | {"VERL_USE_EXTERNAL_MODULES": "outrider.integrations.verl_plugin", SURROGATE: surrogate}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found = {name for name in done.stdout.split() if name.startswith(PREFIX)}
    assert found >= {
        PREFIX + name for name in ("maxrl", "passk", "reinforce_pp", "clip", "cispo", "gmpo", "sapo", "recipe")
    }
