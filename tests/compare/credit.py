"""Advantages beside those of verl's estimators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch

from compare import WIDTH, Comparison, largest
from outrider.credit.arrays import advantages_from_arrays


class Batch(NamedTuple):
    """Rows of groups of the given sizes, shuffled, with lengths of 1 to WIDTH tokens."""

    uid: np.ndarray
    rewards: np.ndarray
    mask: np.ndarray

    @staticmethod
    def of(sizes: Sequence[int], graded: bool = False, seed: int = 0) -> Batch:
        rng = np.random.default_rng([seed, *sizes])
        uid = rng.permutation(np.repeat(np.arange(len(sizes)), sizes)).astype(object)
        rewards = rng.normal(size=len(uid)) if graded else rng.integers(0, 2, len(uid)).astype(float)
        return Batch(uid, rewards, np.arange(WIDTH) < rng.integers(1, WIDTH + 1, len(uid))[:, None])

    @property
    def alone(self) -> np.ndarray:
        return np.array([(self.uid == uid).sum() == 1 for uid in self.uid])

    def ours(self, component: Any) -> np.ndarray:
        return advantages_from_arrays([component], self.uid, self.rewards, self.mask, success=self.rewards > 0.5)

    def theirs(self, name: str, **rest: Any) -> np.ndarray:
        from verl.trainer.ppo import core_algos

        token_level = np.zeros(self.mask.shape, self.rewards.dtype)
        token_level[np.arange(len(self.uid)), self.mask.sum(1) - 1] = self.rewards
        given: dict[str, Any] = {"token_level_rewards": torch.tensor(token_level), "config": None}
        given |= {"response_mask": torch.tensor(self.mask, dtype=torch.float64), "index": self.uid, **rest}
        found, _ = core_algos.get_adv_estimator_fn(name)(**given)
        return found.numpy()


MIXED, LONELY, FOURS = [2, 3, 5, 8, 4], [1, 3, 1, 5], [4, 4, 4]


def advantages(
    name: str, component: Any, sizes: Sequence[int] = MIXED, **rest: Any
) -> Callable[[], tuple[float, float]]:
    def compare() -> tuple[float, float]:
        batches = [Batch.of(sizes), *(Batch.of(sizes, graded=True, seed=seed) for seed in range(3))]
        difference = max(largest(batch.theirs(name, **rest), batch.ours(component)) for batch in batches)
        return difference, difference

    return compare


def but_for(
    name: str,
    component: Any,
    sizes: Sequence[int],
    account: Callable[..., np.ndarray],
    graded: bool = True,
    **rest: Any,
) -> Callable[[], tuple[float, float]]:
    """``account(theirs, batch)`` is what theirs would be without the reason."""

    def compare() -> tuple[float, float]:
        batch = Batch.of(sizes, graded)
        theirs, ours = batch.theirs(name, **rest), batch.ours(component)
        return largest(theirs, ours), largest(account(theirs, batch), ours)

    return compare


def greedy() -> tuple[float, float]:
    """Theirs takes the greedy rewards as an array, ours as one more row of each group."""
    batch = Batch.of(MIXED)
    base = np.arange(len(MIXED)) % 2.0
    theirs = batch.theirs("remax", reward_baselines=torch.tensor(base[batch.uid.astype(int)]))
    uid = np.concatenate([batch.uid, np.arange(len(MIXED))])
    ours = advantages_from_arrays(
        ["greedy"],
        uid,
        np.concatenate([batch.rewards, base]),
        np.concatenate([batch.mask, np.ones((len(MIXED), WIDTH))]),
        greedy=np.arange(len(uid)) >= len(batch.uid),
    )
    difference = largest(theirs, ours[: len(batch.uid)])
    return difference, difference


def unanimous(name: str, component: Any, single: bool) -> Callable[[], tuple[float, float]]:
    """Rewards that all rows of a group share, in the precision of a training run (``single``) or in float64."""

    def compare() -> tuple[float, float]:
        batch = Batch.of(MIXED)
        rewards = np.array([0.1, 0.3, 0.7, 0.9, 1.1])[batch.uid.astype(int)]
        batch = batch._replace(rewards=rewards.astype(np.float32 if single else np.float64))
        theirs, ours = batch.theirs(name), batch.ours(component)
        assert not ours.any()
        return largest(theirs, ours), 0.0

    return compare


RESIDUE = "verl: float32 rounding of the mean divided by an epsilon of 1e-6; Outrider: exactly 0"
LONE = (
    "row alone in its group: verl's advantage is the raw reward; Outrider's is 0, because no other row is available "
    "for comparison"
)

ADVANTAGES = [
    Comparison("verl `grpo`", "`group_mean`", advantages("grpo", "group_mean")),
    Comparison(
        "verl `grpo`, groups of one",
        "`group_mean`",
        but_for("grpo", "group_mean", LONELY, lambda a, b: np.where(b.alone[:, None], 0, a)),
        LONE,
    ),
    Comparison(
        "verl `grpo`, `norm_adv_by_std_in_grpo=False`",
        "`group_mean: {std: false}`",
        advantages("grpo", {"group_mean": {"std": False}}, norm_adv_by_std_in_grpo=False),
    ),
    Comparison(
        "verl `grpo`, unanimous groups, float32",
        "`group_mean`",
        unanimous("grpo", "group_mean", single=True),
        RESIDUE,
    ),
    Comparison("verl `grpo_vectorized`", "`group_mean`", advantages("grpo_vectorized", "group_mean")),
    Comparison(
        "verl `grpo_vectorized`, unanimous groups",
        "`group_mean`",
        unanimous("grpo_vectorized", "group_mean", single=False),
        RESIDUE,
    ),
    Comparison(
        "verl `grpo_vectorized`, groups of one",
        "`group_mean`",
        but_for("grpo_vectorized", "group_mean", LONELY, lambda a, b: np.where(b.alone[:, None], 0, a)),
        LONE,
    ),
    Comparison("verl `rloo`", "`leave_one_out`", advantages("rloo", "leave_one_out")),
    Comparison(
        "verl `rloo`, groups of one",
        "`leave_one_out`",
        but_for("rloo", "leave_one_out", LONELY, lambda a, b: np.where(b.alone[:, None], 0, a)),
        LONE,
    ),
    Comparison(
        "verl `rloo_vectorized`, groups of one",
        "`leave_one_out`",
        advantages("rloo_vectorized", "leave_one_out", LONELY),
    ),
    Comparison(
        "verl `reinforce_plus_plus_baseline`",
        "`reinforce_pp: {weight: token}`",
        advantages("reinforce_plus_plus_baseline", {"reinforce_pp": {"weight": "token", "epsilon": 1e-8}}),
    ),
    Comparison(
        "verl `reinforce_plus_plus_baseline`, unanimous groups, float32",
        "`reinforce_pp: {weight: token}`",
        unanimous("reinforce_plus_plus_baseline", {"reinforce_pp": {"weight": "token", "epsilon": 1e-8}}, single=True),
        "verl: float32 rounding of the mean divided by the batch's standard deviation; Outrider: exactly 0",
    ),
    Comparison(
        "verl `reinforce_plus_plus`, gamma 1",
        "`reinforce_pp: {group_mean: false, weight: token}`",
        advantages(
            "reinforce_plus_plus",
            {"reinforce_pp": {"group_mean": False, "weight": "token", "epsilon": 1e-8}},
            config=SimpleNamespace(gamma=1.0),
        ),
    ),
    Comparison("verl `remax`", "`greedy`", greedy),
    Comparison(
        "verl `grpo_passk`, without std, groups of 4",
        "`passk: {k: 4, variant: pkpo}`",
        but_for(
            "grpo_passk",
            {"passk": {"k": 4, "variant": "pkpo"}},
            FOURS,
            lambda a, b: 4 * a,
            config={"norm_adv_by_std_in_grpo": False},
        ),
        "verl: best minus second best, for the best row; PKPO with k = n is n times this value, because every "
        "component of Outrider is scaled for a mean over rows",
    ),
    Comparison(
        "verl `gpg`",
        "`group_mean: {std: false}`",
        but_for(
            "gpg",
            {"group_mean": {"std": False}},
            MIXED,
            lambda a, b: a * np.count_nonzero(b.rewards) / len(b.rewards),
            graded=False,
        ),
        "verl multiplies by the rows of the batch divided by its rows with non-zero reward",
    ),
]
