"""The probe after a weight sync: each copy of the weights is verified by itself, in float32 and in bfloat16."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from outrider.cli import main
from outrider.errors import EngineLostError, UserError
from outrider.learn.local import LocalLearner
from outrider.learn.options import LearnOptions
from outrider.model.load import Policy, load_policy
from outrider.model.options import PolicyOptions
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import PolicyLoss
from outrider.processes.launch import launch
from outrider.processes.ranks import Ranks
from outrider.record import Rollout, SampleRequest
from outrider.sample.local import LocalSampler
from outrider.sample.options import SampleOptions
from outrider.sample.ready import ready
from outrider.sample.sampler import Export, NamedWeights
from outrider.train.weight_sync import WeightSync
from sampler_cases import move, probe_prompts, weight_sync

OPTIONS = SampleOptions(max_tokens=24)


def policy() -> Policy:
    return ready(load_policy("base:countdown"))[0]


class Copies:
    """Local samplers side by side; those that are stale keep the weights of the beginning.

    Args:
        noise: on every log-probability, as large as that of bfloat16, and new with every version.
        jitter: the same, of stale copies too, as of products in another order.
        lost_at: the call at which the last copy is lost and its requests are drawn by the others.
    """

    gives_entropies = False

    def __init__(
        self, new: Policy, stale: Sequence[bool], noise: float = 0.0, jitter: float = 0.0, lost_at: int = -1
    ) -> None:
        self._copies = [LocalSampler(policy() if old else new, OPTIONS) for old in stale]
        self._stale, self._noise, self._jitter, self._lost_at = list(stale), noise, jitter, lost_at
        self.engines = len(stale)
        self.notices: list[str] = []
        self.calls = self.version = 0

    def take(self, version: int, export: Export) -> dict[str, int]:
        for copy, old in zip(self._copies, self._stale, strict=True):
            if not old:
                copy.take(version, export)
        self.version = version
        return {}

    def sample(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
        self.calls += 1
        n = self.engines
        self.engines -= self.calls == self._lost_at
        drawn = {}
        for c in range(n):
            by = c if c < self.engines else 0
            for i, rollout in zip(range(c, len(requests), n), self._copies[by].sample(requests[c::n]), strict=True):
                drawn[i] = self._rounded(rollout, by)
        return [drawn[i] for i in range(len(requests))]

    def _rounded(self, rollout: Rollout, by: int) -> Rollout:
        at_T = np.arange(len(rollout.token_ids))
        moved = self._noise * np.sin(at_T + (0 if self._stale[by] else self.version))
        moved += self._jitter * np.sin(at_T + self.version)
        return replace(rollout, logprobs_T=rollout.logprobs_T + moved.astype(np.float32))

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("exact", "size", "steps", "said"),
    [
        (True, 2e-7, 8, "the weights did not arrive"),
        (True, 1e-2, 1, "from the learner's, and at most 0.001 is allowed"),
        (False, 2e-3, 3, "the weights did not arrive"),
        (False, 0.05, 1, "from the learner's, and at most 0.3 is allowed"),
    ],
)
@pytest.mark.parametrize("copies", [1, 2, 6])
def test_a_stale_copy_among_any_number_is_refused(exact: bool, size: float, steps: int, said: str, copies: int) -> None:
    learned = policy()
    sampler = Copies(learned, [c == copies - 1 for c in range(copies)], 0.0 if exact else 0.02)
    over = weight_sync(sampler, learned, exact=exact)
    over(0)
    whose = f" of rank 0, copy {copies} of its weights," if copies > 1 else ""
    with pytest.raises(UserError, match=re.escape(f"log-probabilities{whose} are ") + ".*" + re.escape(said)):
        learn_and_sync(over, learned, size, steps)


@pytest.mark.parametrize(
    ("exact", "size", "jitter", "steps"),
    [(True, 4e-6, 1e-6, 1), (True, 1e-8, 1e-6, 100), (False, 5e-3, 1e-3, 1), (False, 1e-4, 1e-3, 100)],
)
def test_a_stale_copy_whose_last_bits_change_is_refused(exact: bool, size: float, jitter: float, steps: int) -> None:
    learned = policy()
    over = weight_sync(Copies(learned, [True], jitter=jitter), learned, exact=exact)
    over(0)
    with pytest.raises(UserError, match=r"log-probabilities moved by no more than \S+, while the .* did not arrive"):
        learn_and_sync(over, learned, size, steps)


def learn_and_sync(over: WeightSync, learned: Policy, size: float, steps: int) -> None:
    for version in range(1, steps + 1):
        move(learned, size)
        over(version)


@pytest.mark.parametrize("exact", [True, False])
def test_copies_that_take_the_weights_pass(exact: bool) -> None:
    learned = policy()
    over = weight_sync(Copies(learned, [False] * 3, 0.0 if exact else 0.02), learned, exact=exact)
    for version in range(4):
        gauges = over(version)
        assert gauges["engines"] == 3.0
        assert gauges["probe_max"] < (1e-4 if exact else 0.03)
        move(learned, 5e-3)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_rounding_does_is_not_taken_for_stale_weights(dtype: str) -> None:
    """By sampler and learner as they are: in bfloat16 either may stay where the other moves, for a while."""
    learned = ready(load_policy("base:countdown", PolicyOptions(dtype=dtype)))[0]  # type: ignore[arg-type]
    loss = PolicyLoss(ObjectiveOptions(), 24)
    learner = LocalLearner(learned.model, LearnOptions(), loss, path=learned.path, dtype=getattr(torch, dtype))
    over = WeightSync(LocalSampler(learned, OPTIONS), learner, Ranks(), probe_prompts(), dtype == "float32")
    draw = torch.Generator().manual_seed(0)
    for version in range(60):
        over(version)
        with torch.no_grad():
            for parameter in learned.model.parameters():
                parameter.add_(1e-7 * torch.randn(parameter.shape, generator=draw))


def test_a_copy_that_is_lost_while_it_is_probed_is_excluded_of_the_verdict() -> None:
    learned = policy()
    sampler = Copies(learned, [False, False, True], lost_at=2)
    over = weight_sync(sampler, learned)
    over(0)
    move(learned, 1e-2)
    assert over(1)["engines"] == 2.0
    assert sampler.calls == 3, "its share was drawn again, by copies that are known"


def stale_on_rank_1(ranks: Ranks) -> int:
    learned = policy()
    over = weight_sync(Copies(learned, [False, ranks.rank == 1]), learned, ranks=ranks)
    over(0)
    move(learned, 1e-2)
    with pytest.raises(UserError, match="of rank 1, copy 2 of its weights, are"):
        over(1)
    return 0


def lost_on_rank_1(ranks: Ranks) -> int:
    """An engine in the process of one rank fails when it takes weights."""
    learned = policy()
    sampler = Copies(learned, [False])
    over = weight_sync(sampler, learned, ranks=ranks)
    over(0)
    if ranks.rank == 1:
        sampler.take = fails  # type: ignore[method-assign]
    with pytest.raises(EngineLostError, match="memory ran out"):
        over(1)
    return ranks.from_main(lambda: 7)  # as saving does, which all ranks then do


def fails(version: int, export: Export) -> dict[str, int]:
    raise EngineLostError("memory ran out")


@pytest.mark.parametrize(("main", "status"), [(stale_on_rank_1, 0), (lost_on_rank_1, 7)])
def test_what_one_rank_alone_meets_is_told_to_all(main: Callable[[Ranks], int], status: int) -> None:
    assert launch(2, main) == status


class Copying(LocalSampler):
    """A sampler with weights of its own, which it copies from the learner's memory."""

    def __init__(self) -> None:
        self.policy = policy()
        super().__init__(self.policy, OPTIONS)

    def copy_weights(self, version: int, weights: NamedWeights) -> dict[str, int]:
        self.policy.model.load_state_dict(dict(weights))
        return super().take(version, lambda folder: None)

    def take(self, version: int, export: Export) -> dict[str, int]:
        raise AssertionError("no folder is needed")


def test_weights_are_copied_in_memory_if_both_sides_can() -> None:
    learned = policy()
    over = weight_sync(Copying(), learned)
    for version in (1, 2):
        move(learned)
        assert over(version)["probe_max"] < 1e-4
    over._learner.held.whole = False  # type: ignore[attr-defined]  # as of a sharded model
    with pytest.raises(AssertionError, match="no folder is needed"):
        over(3)


def test_a_sampler_sleeps_from_each_update_to_the_next_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samplers that cannot sleep are the rule; this one can, and refuses to sample while it sleeps."""
    seen: list[str] = []

    def noted(owner: type, name: str) -> None:
        real = getattr(owner, name, lambda *_: None)
        monkeypatch.setattr(owner, name, lambda *a, **k: (seen.append(name), real(*a, **k))[1], raising=False)

    noted(LocalSampler, "sleep")
    noted(LocalSampler, "take")
    noted(LocalSampler, "sample")
    noted(LocalLearner, "update")
    words = ["train={problems: 2, steps: 2, tokens: null, ranks: 1, trackers: []}", "explore.0.n=4"]
    words += ["evaluate={before: false, after: false}", "sample.max_tokens=24"]
    assert main(["train", "grpo", *words, "--out", str(tmp_path / "run")]) == 0
    in_turn = [name for name, before in zip(seen, ["", *seen], strict=False) if name != before]
    assert in_turn == ["take", "sample"] + 2 * ["sleep", "update", "take", "sample"]


def test_a_sampler_that_fails_to_sleep_loses_no_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[int] = []

    def sleep(sampler: LocalSampler) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise EngineLostError("vLLM fails in this process")

    monkeypatch.setattr(LocalSampler, "sleep", sleep, raising=False)
    words = ["train={problems: 2, steps: 3, tokens: null, ranks: 1, trackers: [], save_every: 100}", "explore.0.n=4"]
    words += ["evaluate={before: false, after: false}", "sample.max_tokens=24"]
    assert main(["train", "grpo", *words, "--out", str(tmp_path / "run")]) != 0
    assert "after step 1" in capsys.readouterr().err
    assert (tmp_path / "run/checkpoints/step-00000001").is_dir()
