"""Runs exploration stages (the parts of a recipe that request rollouts) without a policy, to test them. All rollouts
are made up from their seeds, so that every run with the same requests is the same."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrider.arrays import Floats
from outrider.explore import Stage
from outrider.explore.explorer import Explorer
from outrider.explore.stream import ProblemStream
from outrider.record import (
    Group,
    Ids,
    Observation,
    Outcome,
    Problem,
    Rollout,
    SampleRequest,
    StopReason,
    Verdict,
    uniforms,
)
from outrider.record.turns import sampled
from outrider.testing.law import require, require_equal
from outrider.testing.situations import Situation

POOL = [Problem(f"p{i}", f"the question {i}", level=str(i % 3)) for i in range(32)]
STEPS = 6


class ScriptedEngine:
    """An engine without a model. Every prompt has two tokens, and each token's text is its id."""

    def encode(self, problem: Problem) -> Ids:
        return np.array([1, 2], np.int32)

    def token_texts(self, ids: Ids) -> list[str]:
        return [str(i) for i in ids]

    def attention(self, rollout: Rollout, starts: Sequence[int]) -> NDArray[np.float64]:
        return np.zeros((1, len(starts), len(starts)))

    def branching(self, rollouts: Sequence[Rollout], mass: float) -> list[NDArray[np.int32]]:
        return [np.ones(r.trainable_tokens, np.int32) for r in rollouts]


class SteppedEngine(ScriptedEngine):
    """A scripted engine in which token ids divisible by five end a reasoning step."""

    def token_texts(self, ids: Ids) -> list[str]:
        return ["\n\n" if i % 5 == 0 else f" w{i}" for i in ids]


@cache
def _uniforms(seed: int, length: int) -> Floats:
    """Return uniform numbers in (0, 1). They are cached, since the tests of a stage make the same rollouts again and
    again."""
    numbers_T: Floats = uniforms(np.array([seed]), np.arange(length))[0]
    return numbers_T


def honest(success: bool, member: int) -> float:
    """Return reward 1 for a success, and 0 otherwise."""
    return float(success)


def perverse(success: bool, member: int) -> float:
    """Return a shaped reward that is lower for successes than for failures."""
    return -2.0 * success + 0.1 * member


@dataclass
class ScriptedRun:
    """A test run of exploration stages (the parts of a recipe that request rollouts). Rollouts are made up instead of
    sampled from a policy.

    Attributes:
        plans: requests of the last stage in ``stages``, for each step.
        drawn: all sampled rollouts by id.
        metrics: metrics of the latest step.
        known: cache of rollouts with read-only arrays, shared by all runs with the same ``situation``.
        parents: rollouts from which branches may start, by id. A resumed run may branch from rollouts of the
            interrupted run.

    >>> from outrider.explore import Uniform
    >>> from outrider.testing.situations import SITUATIONS
    >>> run = ScriptedRun([Uniform(n=2)], SITUATIONS["even groups"])
    >>> [group.size for group in run.next()]
    [2, 2, 2, 2]
    """

    stages: Sequence[Stage]
    situation: Situation
    seed: int = 3
    reward: Callable[[bool, int], float] = honest
    train: Callable[[int], Problem] = lambda index: POOL[index % len(POOL)]
    step: int = 0
    plans: list[list[tuple[Any, ...]]] = field(default_factory=list)
    drawn: dict[str, Rollout] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    known: dict[tuple[Any, ...], Rollout] = field(default_factory=dict)
    parents: dict[str, Rollout] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.explorer = Explorer(self.stages, ProblemStream(self.train), SteppedEngine(), self.seed)
        self.stage = self.explorer.stages[-1]
        self.name = f"{len(self.stages) - 1}-{type(self.stage).__name__.lower()}"

    def steps(self, n: int) -> list[list[Group]]:
        """Run the next ``n`` steps, and return the groups of each step."""
        return [self.next() for _ in range(n)]

    def next(self) -> list[Group]:
        """Run the next step, and return its groups."""
        self.step += 1
        self.plans.append([])
        progress = (self.step - 1) / STEPS
        groups, self.metrics = self.explorer.explore(self.step, self.situation.problems, self._draw, progress)
        return groups

    def _draw(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
        self.plans[-1] += [_described(r) for r in requests if r.stage == self.name]
        made = [self.rollout(request, k) for request in requests for k in range(request.n)]
        self.drawn.update({rollout.id: rollout for rollout in made})
        self.parents.update(self.drawn)
        return made

    def rollout(self, request: SampleRequest, index: int) -> Rollout:
        """Return the ``index``-th rollout of a request, with its reward."""
        if request.replay is not None:
            replayed = (request.n, request.replay.problem_id)
            require_equal(replayed, (1, request.problem.id), "a replay's count and problem")
            return self._rewarded(request.replayed())
        if request.prefix is not None:
            _require_own_branch(request, self.parents)
        prefix = None if request.prefix is None else (request.prefix.parent, request.prefix.ids.tobytes())
        place = (
            request.group_id,
            request.problem.id,
            request.first_member + index,
            prefix,
            None if request.prompt_ids is None else request.prompt_ids.tobytes(),
        )
        key = (*place, request.seed, request.context, request.stream, request.stage)
        if key not in self.known:
            self.known[key] = scripted_rollout(request, index, self.situation)
        if (key, self.reward) not in self.known:
            self.known[key, self.reward] = self._rewarded(self.known[key])
        return self.known[key, self.reward]

    def _rewarded(self, rollout: Rollout) -> Rollout:
        verdict = rollout.verdict
        assert verdict is not None
        scorable = verdict.outcome in (Outcome.CORRECT, Outcome.INCORRECT)
        reward = self.reward(verdict.success, rollout.member) if scorable else np.nan
        return rollout.verified(verdict, reward)


def _require_own_branch(request: SampleRequest, parents: dict[str, Rollout]) -> None:
    """Require that a branch continues a rollout of the same problem and prompt, and starts at a sampled token."""
    prefix = request.prefix
    assert prefix is not None
    require(prefix.parent in parents, f"a branch continues {prefix.parent!r}, which no rollout is")
    kept, parent = prefix.ids, parents[prefix.parent]
    require_equal(kept.tolist(), parent.response_ids[: len(kept)].tolist(), "the prefix of a branch")
    require_equal(request.problem.id, parent.problem_id, "the problem of a branch")
    own = None if request.prompt_ids is None else request.prompt_ids.tolist()
    require_equal(own, parent.prompt_ids.tolist(), "the prompt of a branch")
    flags = sampled(parent, parents)
    require(bool(flags[len(kept)]), "a branch begins at a token that was observed and not sampled")
    known = np.ones(len(kept), np.bool_)
    for begin, end in prefix.observed or ():
        known[begin:end] = False
    require_equal(known.tolist(), flags[: len(kept)].tolist(), "the sampled tokens of a branch's prefix")


def scripted_rollout(request: SampleRequest, index: int, situation: Situation) -> Rollout:
    """Return a rollout of 3 to 12 tokens without a reward. The rollout depends only on the arguments."""
    member, seed = request.first_member + index, request.rollout_seed(index)
    length = 3 + seed % 10
    numbers_T = _uniforms(seed, length)
    ending = situation.ending(request, member)
    seen_T = _sampled_tokens(member, length) if situation.turns else None
    numbers_T = numbers_T if seen_T is None else np.where(seen_T, numbers_T, np.nan)
    assert request.prompt_ids is not None
    made = Rollout(
        problem_id=request.problem.id,
        group_id=request.group_id,
        member=member,
        prompt_ids=request.prompt_ids,
        token_ids=(3 + 27 * _uniforms(seed, length)).astype(np.int32),
        logprobs_T=np.log(numbers_T).astype(np.float32),
        entropies_T=(3 * (numbers_T if seen_T is not None else numbers_T[::-1])).astype(np.float32),
        trainable_T=seen_T,
        observations=() if seen_T is None else _observations(seen_T),
        prefix_ids=np.zeros(0, np.int32) if request.prefix is None else request.prefix.ids,
        parent=None if request.prefix is None else request.prefix.parent,
        context=request.context,
        stream=request.stream,
        stage=request.stage,
        seed=seed,
        stop=StopReason.LENGTH if situation.truncated else StopReason.STOP,
        text=f"answer {member}",
        verdict=Verdict(ending, 1.0 if ending is Outcome.CORRECT else 0.0),
    )
    for array in (made.token_ids, made.logprobs_T, made.entropies_T):
        if array is not None:
            array.setflags(write=False)
    return made


def _sampled_tokens(member: int, length: int) -> NDArray[np.bool_] | None:
    """Return a mask of the sampled tokens. ``member`` selects one of six patterns."""
    flags_T = np.ones(length, np.bool_)
    match member % 6:
        case 0:
            return None
        case 1:
            flags_T[0] = False
        case 2:
            flags_T[-1] = False
        case 3:
            flags_T[1:-1] = False
        case 4:
            flags_T[::2] = False
        case 5:
            flags_T[:] = False
    return flags_T


def _observations(sampled_T: NDArray[np.bool_]) -> tuple[Observation, ...]:
    """Return one observation for each span of consecutive tokens that were not sampled."""
    at, found = 0, []
    for flag, tokens in ((flag, len(list(run))) for flag, run in itertools.groupby(sampled_T.tolist())):
        if not flag:
            found.append(Observation(at, tokens, 0, 0))
        at += tokens
    return tuple(found)


def _described(r: SampleRequest) -> tuple[Any, ...]:
    require(r.n > 0, f"a request for {r.n} rollouts of {r.problem.id!r}")
    branch = None if r.prefix is None else (r.prefix.parent, r.prefix.ids.tolist())
    prompt = None if r.prompt_ids is None else r.prompt_ids.tolist()
    return (r.problem.id, r.n, r.first_member, branch, r.stream, r.context, prompt)
