"""Runs without a policy: an explorer over a pool of problems that come back, with scripted rollouts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrider.explore import Stage, View
from outrider.explore.explorer import Explorer
from outrider.explore.rate import Rate
from outrider.explore.recalibration import Recalibration
from outrider.explore.stream import ProblemStream
from outrider.record import (
    Group,
    Observation,
    Outcome,
    Problem,
    Rollout,
    SampleRequest,
    StopReason,
    Verdict,
    identity_seed,
    uniforms,
)
from outrider.record.turns import sampled
from small import LONG, ScriptedEngine

seed_of = cache(identity_seed)  # asked for again by every run in the same world


class World(NamedTuple):
    """A situation: ``problems`` a step, what stage comes ``before``, and how rollouts end."""

    problems: int
    before: Callable[[], Stage]
    ending: Callable[[SampleRequest, int], Outcome]
    truncated: bool = False
    turns: bool = False


class Unmoved(Recalibration):
    """Leaves what levels and own pasts say as it is."""

    def learn(self, told: Sequence[tuple[Rate, int, int]]) -> None: ...


class Ragged(Stage):
    """One to seven rollouts, by the problem alone."""

    def plan(self, view: View) -> list[SampleRequest]:
        sizes = [1 + seed_of("size", g.problem.id) % 7 for g in view.groups]
        return [] if view.round else [SampleRequest(g.problem, n=n) for g, n in zip(view.groups, sizes, strict=True)]


class Halved(Ragged):
    """The same, and every other problem is left out again, by itself alone."""

    def drop(self, groups: Sequence[Group]) -> dict[str, str]:
        return {g.id: "halved: by lot" for g in groups if seed_of("half", g.problem.id) % 2}


def by_rate(request: SampleRequest, member: int) -> Outcome:
    """Some problems never, some always, most now and then; the visit and the member decide."""
    rate = seed_of("rate", request.problem.id) % 5 / 4
    return Outcome.CORRECT if seed_of(request.group_id, member) / 2**63 < rate else Outcome.INCORRECT


def with_errors(request: SampleRequest, member: int) -> Outcome:
    return Outcome.ERROR if seed_of("error", request.group_id, member) % 3 == 0 else by_rate(request, member)


def always(ending: Outcome) -> Callable[[SampleRequest, int], Outcome]:
    return lambda request, member: ending


POOL = [Problem(f"p{i}", f"the question {i}", level=str(i % 3)) for i in range(32)]
STEPS = 6


class Engine(ScriptedEngine):
    """Every fifth token ends a step."""

    def pieces(self, ids: np.ndarray) -> list[str]:
        return ["\n\n" if i % 5 == 0 else f" w{i}" for i in ids]


@cache
def numbers(seed: int, length: int) -> np.ndarray:
    """In (0, 1); cached, since most tests draw the same rollouts."""
    return uniforms(np.array([seed]), np.arange(length))[0]


def honest(success: bool, member: int) -> float:
    return float(success)


def perverse(success: bool, member: int) -> float:
    """A shaped reward that orders the members otherwise than their success does."""
    return -2.0 * success + 0.1 * member


def observed(member: int, length: int) -> np.ndarray | None:
    """Which tokens were sampled: all; all but the first, the last, or some between; every other; none."""
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


@dataclass
class Run:
    """Steps of an explorer, and everything that its last stage decided.

    ``plans`` holds that stage's requests of each step, ``drawn`` every rollout, ``metrics`` the last step's; ``known``
    are rollouts by all that they depend on, which runs in one world share: nobody can write into them. ``parents``
    are rollouts by id; a run that goes on where another was killed continues some of those.
    """

    stages: Sequence[Stage]
    world: World
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
        self.explorer = Explorer(self.stages, ProblemStream(self.train), Engine(), self.seed)
        self.stage = self.explorer.stages[-1]
        self.name = f"{len(self.stages) - 1}-{type(self.stage).__name__.lower()}"

    def steps(self, n: int) -> list[list[Group]]:
        return [self.next() for _ in range(n)]

    def next(self) -> list[Group]:
        self.step += 1
        self.plans.append([])
        progress = (self.step - 1) / STEPS
        groups, self.metrics = self.explorer.explore(self.step, self.world.problems, self.draw, progress)
        return groups

    def draw(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
        self.plans[-1] += [described(r) for r in requests if r.stage == self.name]
        made = [self.rollout(request, k) for request in requests for k in range(request.n)]
        self.drawn.update({rollout.id: rollout for rollout in made})
        self.parents.update(self.drawn)
        return made

    def rollout(self, request: SampleRequest, index: int) -> Rollout:
        if request.replay is not None:
            assert (request.n, request.replay.problem_id) == (1, request.problem.id), "one of its own problem"
            return self.rewarded(request.replayed())
        if request.prefix is not None:
            kept, parent = request.prefix.ids, self.parents[request.prefix.parent]
            assert kept.tolist() == parent.response_ids[: len(kept)].tolist(), "a branch continues its parent"
            assert parent.problem_id == request.problem.id, "a branch stays with its problem"
            assert request.prompt_ids.tolist() == parent.prompt_ids.tolist(), "and in its context"
            flags = sampled(parent, self.parents)
            assert flags[len(kept)], "a branch writes nothing for the world"
            known = np.ones(len(kept), np.bool_)
            for begin, end in request.prefix.observed or ():
                known[begin:end] = False
            assert (known == flags[: len(kept)]).all(), "and is told what the world said"
        prefix = None if request.prefix is None else (request.prefix.parent, request.prefix.ids.tobytes())
        place = (
            request.group_id,
            request.problem.id,
            request.first_member + index,
            prefix,
            request.prompt_ids.tobytes(),
        )
        key = (*place, request.seed, request.context, request.stream, request.stage)
        if key not in self.known:
            self.known[key] = self.made(request, index)
        if (key, self.reward) not in self.known:
            self.known[key, self.reward] = self.rewarded(self.known[key])
        return self.known[key, self.reward]

    def rewarded(self, rollout: Rollout) -> Rollout:
        scorable = rollout.verdict.outcome in (Outcome.CORRECT, Outcome.INCORRECT)
        reward = self.reward(rollout.verdict.success, rollout.member) if scorable else np.nan
        return rollout.judged(rollout.verdict, reward)

    def made(self, request: SampleRequest, index: int) -> Rollout:
        member, seed = request.first_member + index, request.rollout_seed(index)
        length = 3 + seed % 10
        numbers_T = numbers(seed, length)
        ending = self.world.ending(request, member)
        verdict = Verdict(ending, 1.0 if ending is Outcome.CORRECT else 0.0)
        seen_T = observed(member, length) if self.world.turns else None
        numbers_T = numbers_T if seen_T is None else np.where(seen_T, numbers_T, np.nan)
        made = Rollout(
            problem_id=request.problem.id,
            group_id=request.group_id,
            member=member,
            prompt_ids=request.prompt_ids,
            token_ids=(3 + 27 * numbers(seed, length)).astype(np.int32),
            logprobs_T=np.log(numbers_T).astype(np.float32),
            entropies_T=(3 * (numbers_T if seen_T is not None else numbers_T[::-1])).astype(np.float32),
            trainable_T=seen_T,
            observations=() if seen_T is None else heard(seen_T),
            prefix_ids=np.zeros(0, np.int32) if request.prefix is None else request.prefix.ids,
            parent=None if request.prefix is None else request.prefix.parent,
            context=request.context,
            stream=request.stream,
            stage=request.stage,
            seed=seed,
            stop=StopReason.LENGTH if self.world.truncated else StopReason.STOP,
            text=f"answer {member}",
            verdict=verdict,
        )
        for array in (made.token_ids, made.logprobs_T, made.entropies_T):
            array.setflags(write=False)
        return made


def heard(sampled_T: NDArray[np.bool_]) -> tuple[Observation, ...]:
    """One for each stretch of tokens that were not sampled."""
    at, found = 0, []
    for flag, tokens in ((flag, len(list(run))) for flag, run in itertools.groupby(sampled_T.tolist())):
        if not flag:
            found.append(Observation(at, tokens, 0, 0))
        at += tokens
    return tuple(found)


def fates(groups: Sequence[Group], plan: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """What a step decided for each problem, in no order: what was asked for it, and what was dropped."""
    asked = {g.problem.id: [d for d in plan if d[0] == g.problem.id] for g in groups}
    return {g.problem.id: (asked[g.problem.id], [r.unused for r in g.rollouts]) for g in groups}


def described(r: SampleRequest) -> tuple[Any, ...]:
    branch = None if r.prefix is None else (r.prefix.parent, r.prefix.ids.tolist())
    assert r.n > 0
    return (r.problem.id, r.n, r.first_member, branch, r.stream, r.context, r.prompt_ids.tolist())


ENDINGS = {"1": Outcome.CORRECT, "0": Outcome.INCORRECT, "t": Outcome.INCORRECT, "e": Outcome.ERROR}


def members(endings: str, problem: Problem = POOL[0], step: int = 1, first: int = 0, **rest: Any) -> list[Rollout]:
    """Rollouts of three tokens: "1" succeeds, "0" fails, "t" runs out of tokens, "e" is a verifier error."""
    plain: dict[str, Any] = {
        "token_ids": np.full(3, 5, np.int32),
        "logprobs_T": np.log(np.full(3, 0.5, np.float32)),
        "prompt_ids": np.array([1, 2], np.int32),
        "prefix_ids": np.zeros(0, np.int32),
        "stage": "0-uniform",
    }
    made = []
    for member, ending in enumerate(endings, start=first):
        verdict = Verdict(ENDINGS[ending], float(ending == "1"))
        rollout = Rollout(
            problem_id=problem.id,
            group_id=f"train:{step}:{problem.id}",
            member=member,
            seed=identity_seed(step, problem.id, member),
            stop=StopReason.LENGTH if ending == "t" else StopReason.STOP,
            **{**plain, **rest},
        )
        made.append(rollout.judged(verdict, np.nan if ending == "e" else float(ending == "1")))
    return made


def group(endings: str, problem: Problem = POOL[0], step: int = 1, **rest: Any) -> Group:
    return Group(problem, f"train:{step}:{problem.id}", tuple(members(endings, problem, step, **rest)))


def batch(*endings: str, step: int = 1) -> list[Group]:
    """One group per problem of the pool, in order."""
    return [group(text, problem, step) for text, problem in zip(endings, POOL, strict=False)]


def view(groups: Sequence[Group], step: int = 1, round: int = 0, progress: float = 0.0, seed: int = 3) -> View:
    """What a stage sees; new problems are those of the pool that follow the groups."""

    def take(n: int) -> list[Problem]:
        return POOL[len(groups) : len(groups) + n]

    return View(groups, step, round, progress, take, Engine(), seed, LONG)
