"""Success replay: trains again on a problem's last success if no rollout of the step solves the problem."""

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

MOST_TOKENS = 800_000  # 70 checkpoint bytes per token, 56 MB: 195 responses of 4,096 tokens, or about 5,000 of 160


class _Success(NamedTuple):
    """The last success of a problem, and the step that sampled it."""

    step: int
    rollout: Rollout


class Replay(Stage):
    """Adds a problem's last success to the problem's group if all of the problem's rollouts fail in this step.

    After every step, the stage stores the last success of each problem with a pass rate below one half, including
    tokens and log-probabilities. If the pass rate is one half or above, the stored success is removed. Branches
    (continuations of other rollouts) and rollouts with hints or in-context examples are ignored. A group of failures
    has no gradient; with the success added, the group has a gradient. Nothing is sampled, so a replay costs no
    generated tokens.

    A replay is off-policy: its old log-probabilities come from the policy that sampled it. With ``clip: [0.2, 0.2]``, a
    token whose probability rose by more than a fifth has no gradient. If a token's probability fell, its gradient is
    multiplied by the ratio of the new probability to the old one: the further the probability fell, the smaller the
    gradient. The corrections ``truncate`` and ``mask`` (``objective.correction``) weight the replay by the ratio of the
    current policy to the policy that sampled it. With the correction ``recompute`` or the policy loss ``likelihood``,
    the replay is treated as if the current policy had sampled it.

    A replayed rollout is not a sample of the current policy, so pass rates, costs, other stages and reports ignore it.
    In rollout files, a replay has the ``context`` ``replayed``, and the original rollout's id. The replay is trained
    on, so the learner's metrics (``learn/…``, and the metrics of a correction) include the replay. The stage must come
    last.

    Degenerate cases: nothing is replayed if no success is stored, if the verifier could score no rollout of the group,
    or if an earlier stage excluded the group. The stage therefore has no effect after ``refill``, which drops unsolved
    groups. Successes that another stage excluded from training are not stored. The same success may be replayed in
    several steps; ``oldest`` limits its age. If a success has another temperature or prompt than this step's rollouts,
    for example after resuming with a changed recipe, the success is removed. The metric ``outdated`` counts such
    successes. Responses with observations are not stored. The store holds the latest successes, up to a total of
    800,000 tokens including prompts. ``forgotten`` counts successes that were removed because of this limit, including
    single successes that exceed the limit.

    Source: response reuse of AR3PO (Zhang et al. 2025, arXiv 2509.25808): correct responses come from a replay buffer
    if sampling finds no correct response. Only the abstract was available. Our choices are the maximum age of a
    success, the number of replays, and the off-policy correction of replays.

    >>> Replay().oldest is None
    True
    """

    oldest: int | None = Field(
        None, ge=1, description="maximum age, in training steps, of a stored success that is replayed; null: no limit"
    )
    stream: str = Field(
        "main",
        description=(
            "name of the loss stream (a separately weighted part of the loss) that contains the replayed rollouts"
        ),
    )

    _kept: dict[str, _Success] = PrivateAttr(default_factory=dict)
    _steps: int = PrivateAttr(0)  # number of observed steps
    _ages: list[int] = PrivateAttr(default_factory=list)
    _outdated: int = PrivateAttr(0)

    def check(self, around: Surroundings) -> None:
        if not around.before:
            raise ValueError("replay needs plain rollouts and cannot be the first stage: put uniform before it")
        if around.turns:
            raise ValueError(
                f"replay supports single-turn responses only, but those of {around.task} have several turns"
            )
        if around.after:
            name = type(around.after[0]).__name__.lower()
            raise ValueError(
                f"replay must be the last stage: {name} after it would treat replayed rollouts as this step's"
            )
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
        for group in sorted(groups, key=lambda group: group.problem.id):  # so that batch order does not matter
            rate, right = pass_rate(group), [r for r in first_pass(group) if r.success and trainable(r)]
            found = [r for r in right if not r.observations]  # check() may not have run (no recipe)
            if rate is not None and rate >= 0.5:
                self._kept.pop(group.problem.id, None)
            elif found:
                # the state holds no timings, and rewards are assigned later
                kept = replace(found[-1], verdict=replace(_verdict(found[-1]), seconds=0.0), reward=None)
                remember(self._kept, group.problem.id, _Success(self._steps, kept), MOST_TOKENS)  # >= 1 token each
        forgotten = self._make_room()
        replayed, self._ages = self._ages, []
        age = fsum(replayed) / len(replayed) if replayed else nan
        numbers = {"replayed": len(replayed), "age": age, "outdated": self._outdated, "kept": len(self._kept)}
        return {name: float(number) for name, number in {**numbers, "forgotten": forgotten}.items()}

    def _make_room(self) -> int:
        """Remove the oldest successes beyond ``MOST_TOKENS``; return the number removed."""
        tokens, forgotten = sum(map(_tokens, self._kept.values())), 0
        while tokens > MOST_TOKENS:
            tokens -= _tokens(self._kept.pop(next(iter(self._kept))))
            forgotten += 1
        return forgotten

    def state_dict(self) -> dict[str, Any]:
        """Return the stored successes, oldest first, each with the step in which it was sampled, and the number of
        steps so far."""
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
    """Whether both rollouts have the same sampling mode and the same prompt."""
    return old.mode == new.mode and np.array_equal(old.prompt_ids, new.prompt_ids)


def _verdict(rollout: Rollout) -> Verdict:
    assert rollout.verdict is not None  # every success has a verdict
    return rollout.verdict


def _data(rollout: Rollout) -> dict[str, Any]:
    """Return a stored success as JSON data; numbers are stored exactly."""
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
