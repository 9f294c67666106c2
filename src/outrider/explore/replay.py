"""Success replay: a problem that nothing solves is trained on its own last success once more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import fsum, nan
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field, PrivateAttr

from outrider.explore.bounds import Bounds
from outrider.explore.memory import remember
from outrider.explore.outcome import first_pass, pass_rate, trainable
from outrider.explore.stage import Stage
from outrider.explore.surroundings import Surroundings
from outrider.explore.view import View
from outrider.record import Group, Mode, Outcome, Rollout, SampleRequest, StopReason, Verdict

MOST_TOKENS = 800_000  # at most seventy bytes of a checkpoint each, 56 MB: 195 of 4,096, or some five thousand of 160


class _Success(NamedTuple):
    """The last success of a problem, and the step that drew it."""

    step: int
    rollout: Rollout


class Replay(Stage):
    """The last success of a problem joins its group again where all plain rollouts of the step fail.

    After every step the last plain success of each problem of which fewer than half of the plain rollouts succeeded is
    kept, with its tokens and log-probabilities; one of a problem that is solved more often is let go. A group of
    failures alone teaches nothing; with the success it does. Nothing is drawn, so a replay costs no generated tokens.

    It is off-policy: its old log-probabilities are those of the policy that drew it. Under ``clip: [0.2, 0.2]`` a token
    of it that has become a fifth likelier has no gradient, and one that has become unlikelier counts by its ratio, so
    that what was unlearnt is pulled back least. With ``objective.correction`` ``truncate`` and ``mask`` weigh it by the
    ratio of policies instead; ``recompute``, and the surrogate ``likelihood``, take it as if it were drawn now.

    A replayed rollout says nothing of the present policy: no pass rate, cost, stage or report counts it, and its
    context in the records is ``replayed``, with the id that it had. It is trained on, so the learner's gauges
    (``learn/…``, and those of a correction) are of it too. The stage stands last.

    Degenerate cases: nothing kept, or a group without a plain rollout that could be verified: nothing is replayed, nor
    in a group that an earlier stage excluded, so that behind ``refill``, which leaves the unsolved out, it has nothing
    to do. Only successes that were drawn and might be trained on are kept, never replays, so that one is replayed again
    and again and grows older; ``oldest`` puts an end to that. One that was drawn at another temperature or from another
    prompt than this step's (a run may be resumed with such) is let go: ``outdated``. Responses in which an environment
    has spoken are not kept. Of 800,000 tokens, prompts included, the last are remembered; ``forgotten`` counts those
    that made room, too long ones among them.

    Source: response reuse of AR3PO (Zhang et al. 2025, arXiv 2509.25808), of which the abstract alone could be had:
    correct responses of a replay buffer where sampling finds none. How old they may be, how many join and how they are
    corrected is ours.

    >>> Replay().oldest is None
    True
    """

    oldest: int | None = Field(None, ge=1, description="maximum age of a replayed success in steps; null: no limit")
    stream: str = Field("main", description="loss stream of replayed rollouts")

    _kept: dict[str, _Success] = PrivateAttr(default_factory=dict)
    _steps: int = PrivateAttr(0)  # that were observed
    _ages: list[int] = PrivateAttr(default_factory=list)
    _outdated: int = PrivateAttr(0)

    def check(self, around: Surroundings) -> None:
        if not around.before:
            raise ValueError("replay helps where plain rollouts fail, and as the first stage it finds none")
        if around.turns:
            raise ValueError(f"replay keeps responses of one turn, and those of {around.task} have several")
        if around.after:
            name = type(around.after[0]).__name__.lower()
            raise ValueError(f"replay stands last, or {name} behind it would take what it replays for this step's")
        around.refuse_stream(self.stream)

    def bounds(self, before: Bounds, problems: int) -> Bounds:
        return before.more(problems)

    def plan(self, view: View) -> list[SampleRequest]:
        if view.round:
            return []
        requests, self._ages, self._outdated = [], [], 0
        for group in sorted(view.groups, key=lambda group: group.problem.id):
            success = self._kept.get(group.problem.id)
            if success is None or group.dropped or pass_rate(group) != 0:
                continue
            if not _alike(success.rollout, first_pass(group)[0]):
                del self._kept[group.problem.id]
                self._outdated += 1
                continue
            age = self._steps + 1 - success.step
            if self.oldest is None or age <= self.oldest:
                self._ages.append(age)
                requests.append(SampleRequest(group.problem, replay=success.rollout, stream=self.stream))
        return requests

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        self._steps += 1
        for group in sorted(groups, key=lambda group: group.problem.id):  # so that their order leaves no trace
            rate, right = pass_rate(group), [r for r in first_pass(group) if r.success and trainable(r)]
            found = [r for r in right if not r.observations]  # a stage used alone is never checked
            if rate is not None and rate >= 0.5:
                self._kept.pop(group.problem.id, None)
            elif found:
                # seconds are a clock, and a state has none; a reward is no stage's business
                kept = replace(found[-1], verdict=replace(_verdict(found[-1]), seconds=0.0), reward=None)
                remember(self._kept, group.problem.id, _Success(self._steps, kept), MOST_TOKENS)  # each has one or more
        forgotten = self._make_room()
        replayed, self._ages = self._ages, []
        age = fsum(replayed) / len(replayed) if replayed else nan
        numbers = {"replayed": len(replayed), "age": age, "outdated": self._outdated, "kept": len(self._kept)}
        return {name: float(number) for name, number in {**numbers, "forgotten": forgotten}.items()}

    def _make_room(self) -> int:
        """Let go of the oldest successes beyond the memory, and say of how many."""
        tokens, forgotten = sum(map(_tokens, self._kept.values())), 0
        while tokens > MOST_TOKENS:
            tokens -= _tokens(self._kept.pop(next(iter(self._kept))))
            forgotten += 1
        return forgotten

    def state_dict(self) -> dict[str, Any]:
        """Each success with its step, that of longest ago first, and the number of steps."""
        return {
            "steps": self._steps,
            "kept": [[success.step, _data(success.rollout)] for success in self._kept.values()],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._steps = state["steps"]
        kept = [_Success(step, _rollout(data)) for step, data in state["kept"]]
        self._kept = {success.rollout.problem_id: success for success in kept}


def _tokens(success: _Success) -> int:
    return len(success.rollout.prompt_ids) + len(success.rollout.token_ids)


def _alike(old: Rollout, new: Rollout) -> bool:
    """Whether both were drawn in one mode from one prompt."""
    return old.mode == new.mode and np.array_equal(old.prompt_ids, new.prompt_ids)


def _verdict(rollout: Rollout) -> Verdict:
    assert rollout.verdict is not None  # it is a success
    return rollout.verdict


def _data(rollout: Rollout) -> dict[str, Any]:
    """What a plain success is made of, as plain data; numbers keep all their bits."""
    verdict = _verdict(rollout)
    return {
        **{name: getattr(rollout, name) for name in _PLAIN},
        "prompt_ids": rollout.prompt_ids.tolist(),
        "token_ids": rollout.token_ids.tolist(),
        "logprobs": rollout.logprobs_T.tolist(),
        "entropies": None if rollout.entropies_T is None else rollout.entropies_T.tolist(),
        "mode": list(rollout.mode),
        "stop": rollout.stop.value,
        "verdict": [verdict.outcome.value, verdict.score, verdict.answer, verdict.detail],
    }


def _rollout(data: Mapping[str, Any]) -> Rollout:
    outcome, score, answer, detail = data["verdict"]
    entropies = data["entropies"]
    return Rollout(
        **{name: data[name] for name in _PLAIN},
        prompt_ids=np.array(data["prompt_ids"], np.int32),
        token_ids=np.array(data["token_ids"], np.int32),
        logprobs_T=np.array(data["logprobs"], np.float32),
        prefix_ids=np.zeros(0, np.int32),
        entropies_T=None if entropies is None else np.array(entropies, np.float32),
        mode=Mode(*data["mode"]),
        stop=StopReason(data["stop"]),
        verdict=Verdict(Outcome(outcome), score, answer=answer, detail=detail),
    )


_PLAIN = ("problem_id", "group_id", "member", "stream", "stage", "policy_version", "seed", "text")
