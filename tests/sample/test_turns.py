"""Rollouts of several turns, drawn by a small model with an environment in the loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from outrider.environments.environment import Environment, Reply
from outrider.environments.environments import EnvironmentLimits, Key, LocalEnvironments
from outrider.explore.segment import Turns
from outrider.model.load import Policy
from outrider.model.tiny import tiny_policy
from outrider.record import (
    Group,
    Outcome,
    Prefix,
    Problem,
    Rollout,
    SampleRequest,
    SamplingParams,
    StopReason,
    correct,
    incorrect,
)
from outrider.record.turns import observed
from outrider.sample.local import LocalSampler
from outrider.sample.options import SampleOptions
from outrider.sample.ready import ready
from outrider.sample.turns import TurnSampler
from outrider.train.metrics import step_metrics

PROBLEMS = [Problem(f"p{i}", prompt) for i, prompt in enumerate(["7 5>12:", "3>3:", "11 6 8 9>22:"])]
OPTIONS = SampleOptions(max_tokens=48, stop=[";", "1", "+", "A", " ", "("])


class Counting(Environment):
    """Says the number of the turn and the length of its text; ends at a text that has a 7 in it."""

    opening = ""

    def begin(self, problem: Problem, seed: int) -> str:
        self.problem, self.seed, self.turns = problem, seed, 0
        return self.opening

    def step(self, text: str) -> Reply:
        self.turns += 1
        if "7" in text:
            return Reply(done=True, verdict=correct(text) if self.turns > 1 else incorrect(text))
        return Reply(f"{self.turns}:{len(text)},", error=len(text) == 1)


def random_policy() -> Policy:
    policy = tiny_policy(3)
    with torch.no_grad():
        policy.model.get_output_embeddings().weight.mul_(2.5)  # or all tokens are equally likely everywhere
    return policy


@pytest.fixture(scope="module")
def policy() -> Policy:
    return ready(random_policy(), "packed")[0]


def sampler(
    policy: Policy, make=Counting, most: int = 6, options: SampleOptions = OPTIONS, seconds: float = 10.0
) -> TurnSampler:
    environments = LocalEnvironments(make, EnvironmentLimits(seconds=seconds))
    return TurnSampler(LocalSampler(policy, OPTIONS), policy, OPTIONS, environments, most, 256)


def requests_of(policy: Policy, n: int = 12) -> list[SampleRequest]:
    return [SampleRequest(p, n=n, prompt_ids=policy.encode(p), group_id=f"1/{p.id}", seed=5) for p in PROBLEMS]


def flags(rollout: Rollout) -> np.ndarray:
    return np.ones(len(rollout.token_ids), np.bool_) if rollout.trainable_T is None else rollout.trainable_T


def told(policy: Policy, rollout: Rollout) -> list[tuple[bool, str]]:
    """Who wrote what."""
    own = flags(rollout)
    cuts = np.flatnonzero(np.diff(own.astype(np.int8))) + 1
    parts = zip(np.split(own, cuts), np.split(rollout.token_ids, cuts), strict=True)
    return [(bool(mine[0]), policy.tokenizer.decode(ids, skip_special_tokens=True)) for mine, ids in parts if len(ids)]


def same(a: Rollout, b: Rollout) -> bool:
    arrays = ((a.token_ids, b.token_ids), (a.logprobs_T, b.logprobs_T), (flags(a), flags(b)))
    return all(np.allclose(x, y, atol=1e-5, equal_nan=True) for x, y in arrays) and a.stop is b.stop


def test_every_turn_is_answered_and_nothing_is_written_for_the_environment(policy: Policy) -> None:
    rollouts = sampler(policy).sample(requests_of(policy))
    turns = []
    for rollout in rollouts:
        environment = Counting()
        environment.begin(PROBLEMS[0], 0)
        parts = told(policy, rollout)
        turns.append(sum(mine for mine, _ in parts))
        for (mine, text), (others, said) in zip(parts[::2], parts[1::2], strict=False):
            assert mine
            assert not others
            assert environment.step(text).observation == said
        if rollout.stop is StopReason.DONE:
            assert environment.step(parts[-1][1]).verdict == rollout.verdict
        else:
            assert rollout.truncated
            assert rollout.verdict is None
        assert len(rollout.token_ids) <= OPTIONS.max_tokens
        assert sum(mine for mine, _ in parts) <= 6
        assert np.isnan(rollout.logprobs_T[~flags(rollout)]).all()
        assert np.isfinite(rollout.logprobs_T[flags(rollout)]).all()
    assert {1, 2, 3} <= set(turns), "or nothing of this was seen"
    assert {StopReason.DONE, StopReason.LENGTH} <= {rollout.stop for rollout in rollouts}


def test_log_probabilities_are_those_of_the_model_after_all_that_it_has_seen(policy: Policy) -> None:
    plain = random_policy().model
    for rollout in sampler(policy).sample(requests_of(policy)):
        ids = torch.from_numpy(np.concatenate([rollout.prompt_ids, rollout.token_ids]).astype(np.int64))[None]
        with torch.no_grad():
            logps = plain(input_ids=ids).logits[0].log_softmax(-1)
        first = len(rollout.prompt_ids)
        own = logps[torch.arange(first - 1, ids.shape[1] - 1), ids[0, first:]].numpy()
        mine = flags(rollout)
        assert np.abs(own - rollout.logprobs_T)[mine].max(initial=0.0) < 1e-4


def test_a_rollout_is_a_function_of_its_identity(policy: Policy) -> None:
    """Whatever else is drawn with it, and in whatever turns the others are."""
    requests = requests_of(policy)
    whole = {rollout.id: rollout for rollout in sampler(policy).sample(requests)}
    for request in requests:
        alone = replace(request, n=2, first_member=5)
        for rollout in sampler(policy).sample([alone]):
            assert same(rollout, whole[rollout.id])


def ends_of_turns(rollout: Rollout) -> Sequence[int]:
    return Turns().bounds([], flags(rollout))


def branches_of(
    policy: Policy, rollouts: Sequence[Rollout], places: Callable[[Rollout], Sequence[int]], make=Counting, n: int = 3
) -> list[tuple[Rollout, int, Rollout]]:
    """A rollout, a place in it, and what branches there; all of them are drawn together."""
    origins = [(rollout, at) for rollout in rollouts for at in places(rollout)]
    requests = [
        SampleRequest(
            next(p for p in PROBLEMS if p.id == rollout.problem_id),
            n,
            Prefix(rollout.id, rollout.token_ids[:at], observed(rollout, {}, at)),
            prompt_ids=rollout.prompt_ids,
            group_id=rollout.group_id,
            first_member=50 + n * i,
            seed=5,
        )
        for i, (rollout, at) in enumerate(origins)
    ]
    drawn = iter(sampler(policy, make).sample(requests))
    return [(rollout, at, next(drawn)) for rollout, at in origins for _ in range(n)]


def test_a_branch_goes_on_in_the_environment_of_its_turns(policy: Policy) -> None:
    """Its environment counts on where the other's was, and its turns before count too."""
    seen = 0
    rollouts = sampler(policy).sample(requests_of(policy))
    for rollout, at, branch in branches_of(policy, rollouts, ends_of_turns):
        assert branch.parent == rollout.id
        assert np.array_equal(branch.prefix_ids, rollout.token_ids[:at])
        before = sum(end <= at and end > begin for begin, end in (one.span for one in rollout.observations))
        said = [text for mine, text in told(policy, branch) if not mine]
        assert [int(text.partition(":")[0]) for text in said] == [before + 1 + i for i in range(len(said))]
        assert before + len(said) < 6
        seen += len(said)
    assert seen > 20


class Quiet(Counting):
    """Says nothing to every other turn, and to a turn by its number and length else."""

    def step(self, text: str) -> Reply:
        said = super().step(text)
        return said._replace(observation="") if self.turns % 2 else said


def test_a_branch_behind_a_turn_that_nothing_was_said_to(policy: Policy) -> None:
    """Two turns in a row were two actions: one of both together would lead into another environment."""

    def places(rollout: Rollout) -> list[int]:
        return [one.span[1] for one in rollout.observations[1:] if one.span[1] < len(rollout.token_ids)]

    seen = 0
    rollouts = sampler(policy, Quiet).sample(requests_of(policy))
    for rollout, at, branch in branches_of(policy, rollouts, places, Quiet, n=2):
        assert branch.stop is not StopReason.ENVIRONMENT, branch.verdict
        said = [text for mine, text in told(policy, branch) if not mine]
        before = sum(0 < other.at < at for other in rollout.observations)
        numbers = [int(text.partition(":")[0]) for text in said]
        assert numbers == [n for n in range(before + 1, before + 1 + 2 * len(said)) if n % 2 == 0][: len(said)]
        nothing = any(one.span[1] == at and one.tokens == 0 for one in rollout.observations[1:])
        seen += bool(said) and nothing
    assert seen > 5


@pytest.mark.parametrize("most", [1, 5, 13, 24])
def test_no_more_rollouts_are_in_play_than_may_be(policy: Policy, most: int) -> None:
    """Of a request all are, which share its prompt."""
    high = 0

    class Counted(LocalEnvironments):
        def begin(self, key: Key, problem: Problem, seed: int) -> None:
            nonlocal high
            super().begin(key, problem, seed)
            high = max(high, len(self._environments))

    environments = Counted(Counting, EnvironmentLimits(seconds=60.0))
    drawing = TurnSampler(LocalSampler(policy, OPTIONS), policy, OPTIONS, environments, 6, most)
    whole = sampler(policy).sample(requests_of(policy, 5))
    for one, other in zip(drawing.sample(requests_of(policy, 5)), whole, strict=True):
        assert same(one, other)
    assert 5 <= high <= max(5, most)
    assert high > 5 or most < 10


def test_one_that_drew_nothing_is_of_the_weights_and_the_mode_of_its_step(policy: Policy) -> None:
    drawing = sampler(policy, Absent)
    drawing.take(7, lambda folder: None)
    params = SamplingParams(max_tokens=8, temperature=0.5)
    rollouts = drawing.sample([replace(request, params=params) for request in requests_of(policy, 2)])
    for rollout in rollouts:
        assert (rollout.policy_version, rollout.mode, len(rollout.token_ids)) == (7, params.logprob_mode, 0)
        assert rollout.entropies_T is None


class Absent(Counting):
    def begin(self, problem: Problem, seed: int) -> str:
        raise OSError("nobody is there")


def test_a_branch_in_the_middle_of_a_turn_acts_with_the_whole_turn(policy: Policy) -> None:
    rollout = next(r for r in sampler(policy).sample(requests_of(policy)) if len(told(policy, r)[0][1]) > 4)
    prefix = Prefix(rollout.id, rollout.token_ids[:2], observed(rollout, {}, 2))
    problem = next(p for p in PROBLEMS if p.id == rollout.problem_id)
    request = SampleRequest(problem, 8, prefix, prompt_ids=rollout.prompt_ids, group_id="g", seed=5)
    lengths = 0
    for branch in sampler(policy).sample([request]):
        parts = told(policy, branch)
        if len(parts) > 1:
            turn = policy.tokenizer.decode(rollout.token_ids[:2], skip_special_tokens=True) + parts[0][1]
            assert parts[1][1] == f"1:{len(turn)},"
            lengths += 1
    assert lengths


class Fickle(Counting):
    """Begins otherwise every time that it is made."""

    made = 0

    def begin(self, problem: Problem, seed: int) -> str:
        Fickle.made += 1
        self.salt = Fickle.made
        return super().begin(problem, seed)

    def step(self, text: str) -> Reply:
        reply = super().step(text)
        return reply._replace(observation=f"{reply.observation}{self.salt},")


def test_an_environment_that_answers_otherwise_refuses_the_branch(policy: Policy) -> None:
    """Unscorable, without a token, and with the reason."""
    rollout = next(r for r in sampler(policy, Fickle).sample(requests_of(policy)) if len(told(policy, r)) > 2)
    drawn = branches_of(policy, [rollout], ends_of_turns, Fickle)
    assert drawn
    for _, _, branch in drawn:
        assert branch.stop is StopReason.ENVIRONMENT
        assert len(branch.token_ids) == 0
        assert branch.verdict is not None
        assert branch.verdict.outcome is Outcome.ERROR
        assert math.isnan(branch.verdict.score)
        assert "it is not deterministic, since replies differ after turn 1" in branch.verdict.detail


class Failing(Counting):
    def step(self, text: str) -> Reply:
        if self.problem.id == "p1" and self.turns == 1:
            raise OSError("the disk is gone")
        return super().step(text)


class Silent(Counting):
    def step(self, text: str) -> Reply:
        return Reply(done=True)


def test_an_environment_that_fails_costs_its_own_rollout(policy: Policy) -> None:
    good = {rollout.id: rollout for rollout in sampler(policy).sample(requests_of(policy))}
    failed = 0
    for rollout in sampler(policy, Failing).sample(requests_of(policy)):
        if rollout.stop is StopReason.ENVIRONMENT:
            failed += 1
            assert rollout.problem_id == "p1"
            assert rollout.verdict is not None
            assert rollout.verdict.detail == "the environment: OSError: the disk is gone"
            assert len(rollout.token_ids), "what was drawn before is kept"
        else:
            assert same(rollout, good[rollout.id])
    assert failed
    [*_, silent] = sampler(policy, Silent).sample(requests_of(policy, 1))
    assert silent.verdict is None or "ended without a verdict" in silent.verdict.detail


def test_one_that_is_slow_is_hung(policy: Policy) -> None:
    for rollout in sampler(policy, seconds=0.0).sample(requests_of(policy, 1)):
        assert rollout.verdict is not None
        assert rollout.verdict.outcome is Outcome.TIMEOUT


@pytest.mark.parametrize("most", [1, 2, 3])
def test_at_the_most_turns_a_rollout_is_cut(policy: Policy, most: int) -> None:
    rollouts = sampler(policy, most=most).sample(requests_of(policy))
    cut = [rollout for rollout in rollouts if rollout.stop is StopReason.TURNS]
    assert cut
    for rollout in cut:
        assert sum(mine for mine, _ in told(policy, rollout)) == most
        assert rollout.truncated
        assert told(policy, rollout)[-1][0], "what it would have said is excluded"


class Opening(Counting):
    opening = "12:"


class Flooding(Counting):
    opening = "1" * 47


class Overflowing(Counting):
    opening = "1" * 48


def test_an_environment_may_speak_first(policy: Policy) -> None:
    for rollout in sampler(policy, Opening).sample(requests_of(policy)):
        assert told(policy, rollout)[0] == (False, "12:")
    for rollout in sampler(policy, Flooding).sample(requests_of(policy, 2)):
        assert (rollout.stop, rollout.trainable_tokens, len(rollout.token_ids)) == (StopReason.LENGTH, 1, 48)
    for rollout in sampler(policy, Overflowing).sample(requests_of(policy, 2)):
        assert (rollout.stop, len(rollout.token_ids)) == (StopReason.LENGTH, 0)


@pytest.mark.parametrize("make", [Counting, Opening, Flooding])
def test_what_was_observed_is_on_record_with_its_place(policy: Policy, make: type[Counting]) -> None:
    """As the flags of the tokens have it; an observation that nobody read is there without tokens."""
    rollouts = sampler(policy, make, most=3).sample(requests_of(policy))
    for rollout in rollouts:
        parts = told(policy, rollout)
        shown = [one for one in rollout.observations if one.tokens]
        assert [rollout.text[one.begin : one.end] for one in shown] == [text for mine, text in parts if not mine]
        flags_T = np.ones(len(rollout.token_ids), np.bool_)
        for one in shown:
            flags_T[slice(*one.span)] = False
        assert np.array_equal(flags_T, np.ones_like(flags_T) if rollout.trainable_T is None else rollout.trainable_T)
        assert rollout.turns == sum(mine for mine, _ in parts)
        assert sorted(one.at for one in rollout.observations) == [one.at for one in rollout.observations]
        heard = rollout.observations[1:]  # the first is what an environment says before any turn
        truncated = rollout.stop in (StopReason.LENGTH, StopReason.CONTEXT)
        limited = truncated and not (heard and heard[-1].at == len(flags_T))
        assert len(heard) == rollout.turns - limited, "one for each turn that was answered"


def test_in_the_order_of_the_requests(policy: Policy) -> None:
    rollouts: Sequence[Rollout] = sampler(policy).sample(requests_of(policy, 3))
    assert [rollout.id for rollout in rollouts] == [f"1/p{i}/{k}" for i in range(3) for k in range(3)]
    assert sampler(policy).sample([]) == []


class Wordy(Counting):
    def step(self, text: str) -> Reply:
        return Reply("1:" * 60, error=True) if self.turns == 0 and not self._count() else super().step(text)

    def _count(self) -> bool:
        self.turns += 1
        return False


def test_what_was_cut_and_what_asked_for_the_impossible_is_counted_once(policy: Policy) -> None:
    environments = LocalEnvironments(Wordy, EnvironmentLimits(most_bytes=4))
    drawing = TurnSampler(LocalSampler(policy, OPTIONS), policy, OPTIONS, environments, 6, 256)
    rollouts = drawing.sample(requests_of(policy))
    first = [rollout.observations[1] for rollout in rollouts if len(told(policy, rollout)) > 1]
    assert first
    assert {(one.error, one.cut) for one in first} == {(True, True)}
    metrics = step_metrics([Group(requests_of(policy)[0].problem, "all", tuple(rollouts))], 0)
    every = [one for rollout in rollouts for one in rollout.observations]
    assert metrics["turn_errors"] == sum(one.error for one in every) >= len(first)
    assert metrics["observations_cut"] == sum(one.cut for one in every) >= len(first)
    assert drawing.take(2, lambda folder: None) == {}
    [alone] = drawing.single.sample([replace(requests_of(policy, 1)[0])])
    assert alone.trainable_T is None
    assert alone.stop in (StopReason.TEXT, StopReason.STOP, StopReason.LENGTH)


class Foreign(Counting):
    """Says after its second turn what the tokenizer has no letters for."""

    def step(self, text: str) -> Reply:
        return super().step(text)._replace(observation="1é世") if self.turns == 1 else super().step(text)


def test_what_the_tokenizer_cannot_write_fails_the_rollout_and_is_named(policy: Policy) -> None:
    failed = [r for r in sampler(policy, Foreign).sample(requests_of(policy)) if r.stop is StopReason.ENVIRONMENT]
    assert failed
    for rollout in failed:
        assert rollout.verdict is not None
        assert "the tokenizer has no token for 'é', '世' in the observation" in rollout.verdict.detail


def test_an_observation_without_room_in_the_context_is_excluded(policy: Policy) -> None:
    """At the context's end the rollout is cut as at its own limit, and the last turn is the policy's."""
    short = ready(tiny_policy(3, context=30), "packed")[0]
    rollouts = sampler(short).sample(requests_of(short))
    cut = [rollout for rollout in rollouts if rollout.stop is StopReason.CONTEXT]
    by_the_environment = [rollout for rollout in cut if len(rollout.prompt_ids) + len(rollout.token_ids) < 30]
    assert by_the_environment, "or an observation was never what had no room"
    assert not [rollout for rollout in rollouts if rollout.stop is StopReason.LENGTH]
    for rollout in by_the_environment:
        assert rollout.truncated
        assert rollout.verdict is None
        assert told(short, rollout)[-1][0]
        environment = Counting()
        environment.begin(PROBLEMS[0], 0)
        said = [environment.step(text).observation for mine, text in told(short, rollout) if mine]
        assert len(rollout.prompt_ids) + len(rollout.token_ids) + len(said[-1]) >= 30


def test_environments_know_how_a_chat_template_ends_the_prompt(policy: Policy, monkeypatch) -> None:
    begun = []

    class Told(Counting):
        def begin(self, problem: Problem, seed: int) -> str:
            begun.append(problem.prompt_end)
            return super().begin(problem, seed)

    sampler(policy, Told).sample(requests_of(policy, 1))
    assert begun == [problem.prompt for problem in PROBLEMS]
    begun.clear()
    monkeypatch.setattr(Policy, "prompt_end", property(lambda self: "<think>\n"))
    sampler(policy, Told).sample(requests_of(policy, 1))
    assert set(begun) == {"<think>\n"}


def test_the_end_of_a_sampler_is_that_of_its_environments(policy: Policy) -> None:
    ended = []

    class Ended(LocalEnvironments):
        def end(self) -> None:
            ended.append(True)
            super().end()

    TurnSampler(LocalSampler(policy, OPTIONS), policy, OPTIONS, Ended(Counting, EnvironmentLimits()), 6, 256).close()
    assert ended == [True]
