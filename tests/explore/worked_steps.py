"""Steps that were worked by hand: what a stage finds, and what it has to ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import NamedTuple

import numpy as np

from outrider.explore import Stage
from outrider.record import Group, Problem, Rollout, SampleRequest
from outrider.testing.scripted import SteppedEngine
from scripted import members, view

LETTERS = "abcdefghijkl"
PROBLEMS = [Problem(letter, f"the question {letter}", level="0") for letter in LETTERS]


class Worked(NamedTuple):
    """A step of a stage, by hand. Problems are ``a``, ``b``, …; new ones go on behind those that are found.

    Attributes:
        finds: how the rollouts of each problem have ended, one sign each: 1 success, 0 failure, t a failure that ran
            out of tokens, e unscorable. Behind a bar, how those end that the stage asks for, failures where it says
            nothing.
        asks: round by round the rollouts of each problem: ``{"a": 4}`` from the prompt, ``{"a2@5": 4}`` from rollout 2
            of problem a behind 5 tokens. Where a lot decides which rollouts or cuts, ``{"a": 4}`` is the sum.
        how: what the requests have besides: ``seeded`` prompts, or ``greedy`` rollouts that are not trained on.
        stream: of what is asked for.
        drops: the problems that are excluded in the end, or single rollouts such as ``a0``, and why.
        passes: share of the offers of a problem that is taken into a step, if not all.
        earlier: the steps before, which the stage has observed.
        progress: share of the budget that was spent before.
        surprisals: per token of rollouts such as ``a0``, in nats; others have three tokens of 0. Every token ends a
            segment.
        entropies: the same; where a rollout has both, of one length.
        attention: what the last segment of any rollout pays to each earlier one.
    """

    finds: Mapping[str, str]
    asks: Sequence[Mapping[str, int]] = ()
    stream: str = "main"
    drops: Mapping[str, str] = {}
    passes: Mapping[str, float] = {}
    earlier: Sequence[Mapping[str, str]] = ()
    progress: float = 0.0
    surprisals: Mapping[str, Sequence[float]] = {}
    entropies: Mapping[str, Sequence[float]] = {}
    attention: Sequence[float] = ()


class _Engine(SteppedEngine):
    def __init__(self, attention: Sequence[float]) -> None:
        self._attention = attention

    def attention(self, rollout: Rollout, starts: Sequence[int]) -> np.ndarray:
        paid = np.zeros((1, len(starts), len(starts)))
        paid[0, -1, : len(self._attention)] = self._attention
        return paid


def found(finds: Mapping[str, str], step: int, worked: Worked) -> dict[str, Group]:
    """The groups of a step before the stage."""
    groups = {}
    for letter, endings in finds.items():
        problem, before = PROBLEMS[LETTERS.index(letter)], endings.partition("|")[0]
        if before or not endings:  # else it is a new problem
            made = (
                members(ending, problem, step, first=member, **_tokens(f"{letter}{member}", worked))
                for member, ending in enumerate(before)
            )
            groups[letter] = Group(problem, f"train:{step}:{letter}", tuple(rollout for [rollout] in made))
    return groups


def _tokens(rollout: str, worked: Worked) -> dict[str, np.ndarray | str]:
    entropies = worked.entropies.get(rollout)
    surprisals = worked.surprisals.get(rollout, entropies or [0.7] * 3)
    return {
        "token_ids": np.full(len(surprisals), 5, np.int32),  # a multiple of 5 ends a segment
        "logprobs_T": -np.array(surprisals, np.float32),
        "entropies_T": np.array(surprisals if entropies is None else entropies, np.float32),
        "text": f"the answer of {rollout}",
    }


def check_by_hand(stage: Stage, worked: Worked) -> None:
    """The stage does in this step what the example says, and nothing else."""
    for i, earlier in enumerate(worked.earlier, 1):
        stage.observe(list(found(earlier, i, worked).values()))
    step = len(worked.earlier) + 1
    check_passes(stage, worked, step)
    groups = found(worked.finds, step, worked)
    endings = {letter: iter(text.partition("|")[2]) for letter, text in worked.finds.items()}
    for round in count():
        seen = replace(
            view(list(groups.values()), step, round, worked.progress),
            engine=_Engine(worked.attention),
            take=lambda n: PROBLEMS[len(groups) : len(groups) + n],
        )
        requests = stage.plan(seen)
        expected = dict(worked.asks[round]) if round < len(worked.asks) else {}
        assert _described(requests, places=any("@" in key for key in expected)) == expected, f"round {round}"
        if not requests:
            break
        assert {request.stream for request in requests} == {worked.stream}
        for request in requests:
            letter = request.problem.id
            group = groups.get(letter) or Group(request.problem, f"train:{step}:{letter}")
            texts = "".join(next(endings[letter], "0") for _ in range(request.n))
            groups[letter] = group.joined(_answers(request, group.size, texts, step))
    dropped = stage.drop(list(groups.values()))
    names = {group.id: letter for letter, group in groups.items()}
    names |= {
        f"{group.id}/{r.member}": f"{letter}{r.member}" for letter, group in groups.items() for r in group.rollouts
    }
    assert {names[id]: reason for id, reason in dropped.items()} == worked.drops


def check_passes(stage: Stage, worked: Worked, step: int) -> None:
    offers = 2000
    for letter in worked.finds if worked.passes else ():
        problem = PROBLEMS[LETTERS.index(letter)]
        taken = sum(stage.admits(problem, step) for _ in range(offers)) / offers
        assert abs(taken - worked.passes.get(letter, 1.0)) < 0.04, letter


def _described(requests: Sequence[SampleRequest], places: bool) -> dict[str, int]:
    described: Counter[str] = Counter()
    for request in requests:
        untrained = request.context.trained == "excluded"
        greedy = untrained and request.params is not None and request.params.temperature == 0
        how = "greedy" if greedy else request.context.kind
        prefix = request.prefix if places else None
        place = "" if prefix is None else f"{prefix.parent.rpartition('/')[2]}@{prefix.branch_at}"
        described[request.problem.id + place + (f" {how}" if how != "plain" else "")] += request.n
    return dict(described)


def _answers(request: SampleRequest, first: int, endings: str, step: int) -> list[Rollout]:
    rest = {} if request.prefix is None else {"prefix_ids": request.prefix.ids, "parent": request.prefix.parent}
    rest |= {"context": request.context, "stream": request.stream, "stage": "1-asked"}
    return members(endings, request.problem, step, first=first, **rest, entropies_T=np.zeros(3, np.float32))
