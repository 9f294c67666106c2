"""What is computed of a rollout in a turn is kept for its next one: how much, for how long, and with what numbers."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from test_turns import OPTIONS, PROBLEMS, Counting, flags, random_policy, requests_of, same

from environment_zoo import Waiting
from outrider.environments.apart import ProcessEnvironments
from outrider.environments.environment import Reply
from outrider.environments.environments import EnvironmentLimits, Failed, Key, LocalEnvironments
from outrider.explore.segment import Turns
from outrider.model.load import Policy
from outrider.model.tiny import character_tokenizer
from outrider.record import Prefix, Problem, Rollout, SampleRequest, StopReason
from outrider.record.turns import observed
from outrider.sample.kept import Kept
from outrider.sample.local import LocalSampler
from outrider.sample.options import SampleOptions
from outrider.sample.ready import ready
from outrider.sample.requests import context_of
from outrider.sample.store import Store
from outrider.sample.turns import TurnSampler
from small import random_model

PATHS = ["fused", "packed", "plain"]


def policy_on(path: str) -> Policy:
    return ready(random_policy(), path)[0]


@pytest.fixture(scope="module", params=PATHS)
def policy(request: pytest.FixtureRequest) -> Policy:
    return policy_on(request.param)


class Watched(LocalSampler):
    """Writes down what is asked of it and what it draws, call by call, and what it holds meanwhile."""

    def __init__(self, policy: Policy, options: SampleOptions = OPTIONS) -> None:
        super().__init__(policy, options)
        self.calls: list[list[tuple[SampleRequest, Rollout]]] = []
        self.held: list[int] = []

    def keeping(self) -> AbstractContextManager[Kept]:
        self.calls, self.prefilled_tokens = [], 0
        return super().keeping()

    def sample(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
        drawn = super().sample(requests)
        self.calls.append(list(zip(requests, drawn, strict=True)))
        if self._kept is not None:
            self.held.append(len(self._kept))
        return drawn

    def new_tokens(self) -> int:
        """By hand: a distinct context costs what was observed since its rollout's last turn, and the last token of that
        turn, which was drawn and not read; in a first turn all."""
        read: dict[str, int] = {}
        cost = 0
        for call in self.calls:
            contexts = {context_of(request).tobytes(): request for request, _ in call}
            for request in contexts.values():
                cost += len(context_of(request)) - read.get(request.rollout_id(0), 0)
            for request, drawn in call:
                read[request.rollout_id(0)] = len(context_of(request)) + len(drawn.token_ids) - 1
        return cost


class Anew:
    """A sampler that keeps nothing."""

    engines = 1
    gives_entropies = True

    def __init__(self, sampler: LocalSampler) -> None:
        self.local, self.notices, self.sample, self.take, self.close = (
            sampler,
            sampler.notices,
            sampler.sample,
            sampler.take,
            sampler.close,
        )


class Unsteady(LocalEnvironments):
    """Answers come late and in any order."""

    def __init__(self, make: type[Counting], seed: int) -> None:
        super().__init__(make, EnvironmentLimits())
        self._random = np.random.default_rng(seed)

    def answers(self) -> Iterator[tuple[Key, Reply | Failed]]:
        waiting = list(super().answers())
        self._random.shuffle(waiting)
        some = int(self._random.integers(1, len(waiting) + 1)) if waiting else 0
        self._answers = waiting[some:]
        return iter(waiting[:some])


def drawing(sampler: LocalSampler | Anew, policy: Policy, seed: int | None = None, make=Counting) -> TurnSampler:
    environments = LocalEnvironments(make, EnvironmentLimits()) if seed is None else Unsteady(make, seed)
    return TurnSampler(sampler, policy, OPTIONS, environments, 6, 256)


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_no_token_of_a_context_is_computed_twice(policy: Policy, seed: int | None) -> None:
    sampler = Watched(policy)
    turns = drawing(sampler, policy, seed)
    rollouts = turns.sample(requests_of(policy))
    assert sampler.prefilled_tokens == sampler.new_tokens()
    assert "recomputed_tokens" not in turns.take(1, lambda folder: None)
    assert {StopReason.DONE, StopReason.LENGTH} <= {rollout.stop for rollout in rollouts}
    turn_of: dict[str, int] = {}
    mixed = 0
    for call in sampler.calls:
        for request, _ in call:
            turn_of[request.rollout_id(0)] = turn_of.get(request.rollout_id(0), 0) + 1
        mixed += len({turn_of[request.rollout_id(0)] for request, _ in call}) > 1
    assert (mixed > 3) == (seed is not None), "rows of one call are in different turns"


@pytest.mark.parametrize("seed", [None, 3])
def test_the_numbers_are_those_without(policy: Policy, seed: int | None) -> None:
    """Tokens, log-probabilities, entropies; and of a model that reads everything at once."""
    anew = Anew(LocalSampler(policy, OPTIONS))
    want = drawing(anew, policy).sample(requests_of(policy))
    sampler = Watched(policy)
    got = drawing(sampler, policy, seed).sample(requests_of(policy))
    plain = random_policy().model
    assert sampler.prefilled_tokens < 0.5 * anew.local.prefilled_tokens
    for one, other in zip(got, want, strict=True):
        assert same(one, other)
        assert np.allclose(one.entropies_T, other.entropies_T, atol=1e-5, equal_nan=True)
        ids = torch.from_numpy(np.concatenate([one.prompt_ids, one.token_ids]).astype(np.int64))
        with torch.no_grad():
            logps = plain(input_ids=ids[None]).logits[0].log_softmax(-1)
        first = len(one.prompt_ids)
        own = logps[torch.arange(first - 1, len(ids) - 1), ids[first:]].numpy()
        assert np.abs(own - one.logprobs_T)[flags(one)].max(initial=0.0) < 1e-5


def test_only_rollouts_in_play_are_held(policy: Policy) -> None:
    """Those whose environment is still open, in two rows each at most."""
    environments = Unsteady(Counting, 4)
    requests = requests_of(policy)
    held: list[int] = []

    class Measured(Watched):
        def sample(self, requests_now: Sequence[SampleRequest]) -> list[Rollout]:
            drawn = super().sample(requests_now)
            waiting = {f"{requests[i].group_id}/{k}" for i, k in environments._environments}
            assert set(self._kept._standing) <= waiting
            assert self._kept.bytes <= 2 * len(self._kept) * row
            held.append(len(self._kept))
            return drawn

    shape = policy.model.config
    keys = shape.num_key_value_heads * shape.hidden_size // shape.num_attention_heads
    row = 2 * 4 * shape.num_hidden_layers * keys * (max(len(r.prompt_ids) for r in requests) + OPTIONS.max_tokens)
    TurnSampler(Measured(policy), policy, OPTIONS, environments, 6, 256).sample(requests)
    assert max(held) > 10
    assert held[-1] == 0


class Raising(Counting):
    def step(self, text: str) -> Reply:
        if self.turns == 2:
            raise KeyboardInterrupt
        return super().step(text)


def test_nothing_is_held_after_the_call() -> None:
    policy = policy_on("fused")
    refs: list[weakref.ref[Kept]] = []

    class Referred(Watched):
        def sample(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
            refs.append(weakref.ref(self._kept))
            return super().sample(requests)

    drawing(Referred(policy), policy).sample(requests_of(policy))
    with pytest.raises(KeyboardInterrupt):
        drawing(Referred(policy), policy, make=Raising).sample(requests_of(policy))
    assert len(refs) > 4
    assert all(ref() is None for ref in refs)


@pytest.mark.parametrize(("rows", "n"), [(1, 2), (7, 4)])
def test_what_is_beyond_the_rows_of_a_wave_is_computed_again_and_counted(policy: Policy, rows: int, n: int) -> None:
    free, tight = Watched(policy), Watched(policy, OPTIONS.model_copy(update={"rows": rows}))
    want = drawing(free, policy).sample(requests_of(policy, n))
    turns = drawing(tight, policy)
    for one, other in zip(turns.sample(requests_of(policy, n)), want, strict=True):
        assert same(one, other)
    again = turns.take(1, lambda folder: None).get("recomputed_tokens", 0)
    assert again > 0
    assert tight.prefilled_tokens == free.prefilled_tokens + again
    assert max(tight.held) == rows


def windowed(path: str) -> Policy:
    changes = {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1}
    model = random_model("qwen2", vocab_size=random_policy().model.config.vocab_size, **changes)
    return ready(Policy(model, character_tokenizer()), path)[0]


@pytest.mark.parametrize("path", ["packed", "plain"])
def test_a_cache_that_cannot_be_cut_is_computed_again_and_counted(path: str) -> None:
    """A window of transformers' cache has lost what is before it; ours has everything."""
    policy = windowed(path)
    sampler, anew = Watched(policy), LocalSampler(policy, OPTIONS)
    turns = drawing(sampler, policy)
    want = drawing(Anew(anew), policy).sample(requests_of(policy))
    for one, other in zip(turns.sample(requests_of(policy)), want, strict=True):
        assert same(one, other)
    again = turns.take(1, lambda folder: None).get("recomputed_tokens", 0)
    assert sampler.prefilled_tokens == sampler.new_tokens() + again
    assert (again > 0) == (path == "plain")
    if path == "plain":
        assert sampler.prefilled_tokens == anew.prefilled_tokens


def test_new_weights_leave_nothing_of_the_old() -> None:
    policy = policy_on("fused")
    sampler = Watched(policy)
    [request, *_] = requests_of(policy, 1)
    with sampler.keeping() as kept:
        sampler.sample([request])
        assert len(kept) == 1
        sampler.take(1, lambda folder: None)
        assert len(kept) == 0


def test_a_slow_environment_makes_only_its_own_rollout_wait(tmp_path: Path) -> None:
    """Its tool answers when another rollout is in its third turn: waiting for it would be for ever."""
    policy = policy_on("fused")
    sign = tmp_path / "sign"

    class Signalling(Watched):
        def sample(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
            drawn = [r.rollout_id(0) for call in self.calls for r, _ in call]
            if any(drawn.count(r.rollout_id(0)) == 2 for r in requests):
                sign.touch()
            return super().sample(requests)

    problems = [Problem("slow", PROBLEMS[0].prompt, str(sign)), Problem("quick", PROBLEMS[1].prompt, "")]
    requests = [
        SampleRequest(p, n, prompt_ids=policy.encode(p), group_id=p.id, seed=5)
        for p, n in zip(problems, (1, 8), strict=True)
    ]
    sampler = Signalling(policy)
    environments = ProcessEnvironments(Waiting, EnvironmentLimits(seconds=20.0), memory_gb=1.0)
    rollouts = TurnSampler(sampler, policy, OPTIONS, environments, 6, 256).sample(requests)
    assert StopReason.ENVIRONMENT not in {rollout.stop for rollout in rollouts}
    order = [r.rollout_id(0) for call in sampler.calls for r, _ in call]
    second = [i for i, name in enumerate(order) if name == "slow/0"][1]
    assert max(order[:second].count(f"quick/{k}") for k in range(8)) >= 3
    assert sampler.prefilled_tokens == sampler.new_tokens()


def test_keys_that_give_other_numbers_are_not_gone_on_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of a loaded model finds it, and every turn is prefilled again."""
    right = Store.window

    def one_later(store: Store, first: int, end: int, column: int, there_BQ: torch.Tensor | None) -> Store:
        view = right(store, first, end, column, there_BQ)
        view.starts_B = view.starts_B - 1
        return view

    checked = policy_on("packed")
    want = drawing(LocalSampler(checked, OPTIONS), checked).sample(requests_of(checked))
    monkeypatch.setattr(Store, "window", one_later)
    policy, sentence = ready(random_policy(), "packed")
    assert not policy.path.keeps
    assert "the KV cache is not reused between turns" in sentence
    turns = drawing(LocalSampler(policy, OPTIONS), policy)
    assert all(same(one, other) for one, other in zip(turns.sample(requests_of(policy)), want, strict=True))
    assert turns.take(1, lambda folder: None)["recomputed_tokens"] > 0
    wrong = policy._replace(path=policy.path._replace(keeps=True))
    drawn = drawing(LocalSampler(wrong, OPTIONS), wrong).sample(requests_of(wrong))
    assert not all(same(one, other) for one, other in zip(drawn, want, strict=True)), "the check has a reason"


def test_a_rollout_in_another_state_than_its_id_says_is_prefilled_again() -> None:
    """Two requests of one id, which nobody should make: right numbers, and no token of the one in the other."""
    policy = policy_on("packed")
    sampler = Watched(policy)
    first, second, *_ = (replace(request, group_id="one") for request in requests_of(policy, 1))
    second = replace(second, prompt_ids=np.tile(second.prompt_ids, 12))
    assert len(first.prompt_ids) + OPTIONS.max_tokens < len(second.prompt_ids), "or it could not go on from the first"
    alone = [LocalSampler(policy, OPTIONS).sample([request])[0] for request in (first, second)]
    with sampler.keeping():
        for request, want in zip((first, second), alone, strict=True):
            assert same(sampler.sample([request])[0], want)
        assert sampler.prefilled_tokens == len(first.prompt_ids) + len(second.prompt_ids)


def test_a_single_turn_keeps_nothing() -> None:
    policy = policy_on("fused")
    sampler = Watched(policy)
    sampler.sample(requests_of(policy, 1))
    assert sampler.held == []
    assert sampler.take(1, lambda folder: None) == {}


@pytest.mark.parametrize("path", ["packed", "plain"])
def test_branches_and_openings_and_long_answers_cost_what_is_new(path: str) -> None:
    """A branch is read once as a whole, then turn by turn; rows of one wave have one to forty new tokens."""

    class Uneven(Counting):
        opening = "12:"

        def step(self, text: str) -> Reply:
            reply = super().step(text)
            return reply if reply.done else reply._replace(observation="9" * (self.seed % 3 * len(text) ** 2 % 17))

    policy = policy_on(path)
    options = OPTIONS.model_copy(update={"max_tokens": 90})

    def turns(sampler: LocalSampler | Anew) -> TurnSampler:
        return TurnSampler(sampler, policy, options, LocalEnvironments(Uneven, EnvironmentLimits()), 9, 256)

    roots = turns(LocalSampler(policy, options)).sample(requests_of(policy, 4))
    asked = [
        SampleRequest(
            next(p for p in PROBLEMS if p.id == root.problem_id),
            2,
            Prefix(root.id, root.token_ids[:at], observed(root, {}, at)),
            prompt_ids=root.prompt_ids,
            group_id=root.group_id,
            first_member=100 + 2 * i,
            seed=5,
        )
        for i, root in enumerate(roots)
        for at in Turns().bounds([], flags(root))[:1]
    ]
    sampler, anew = Watched(policy, options), LocalSampler(policy, options)
    got, want = (
        turns(sampler).sample([*requests_of(policy, 4), *asked]),
        turns(Anew(anew)).sample([*requests_of(policy, 4), *asked]),
    )
    assert len(asked) > 5
    assert all(same(one, other) for one, other in zip(got, want, strict=True))
    assert sampler.prefilled_tokens == sampler.new_tokens() < anew.prefilled_tokens
