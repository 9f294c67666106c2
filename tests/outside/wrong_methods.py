"""The same components, each with a mistake that ``outrider.testing`` finds."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from outrider.arrays import Floats
from outrider.credit import Baseline, Members, Shaper
from outrider.environments.environment import Environment, Reply
from outrider.explore.stage import Stage
from outrider.explore.view import View
from outrider.objective.ratio import Marks, TokenRatios
from outrider.objective.surrogate import Surrogate
from outrider.record import Group, Outcome, Problem, SampleRequest, Verdict
from outrider.verify.verifier import Verifier

if TYPE_CHECKING:  # the processes of environments and verifiers need no torch
    from torch import Tensor


class Greedy(Stage):
    """Twice as many rollouts as it should ask for."""

    def plan(self, view: View) -> list[SampleRequest]:
        return [] if view.round else [SampleRequest(g.problem, n=4) for g in view.groups if not g.dropped]


class Restless(Stage):
    """A number of rollouts that no seed decides."""

    def plan(self, view: View) -> list[SampleRequest]:
        groups = [] if view.round else [g for g in view.groups if not g.dropped]
        return [SampleRequest(g.problem, n=random.randint(1, 100)) for g in groups]


class Forgetful(Stage):
    """Counts the groups, and saves no count."""

    _seen: int = 0

    def plan(self, view: View) -> list[SampleRequest]:
        return []

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        self._seen += len(groups)
        return {"seen": float(self._seen)}


class Harsh(Baseline):
    """Takes a member without a verdict for a failure."""

    def advantages(self, members: Members) -> Floats:
        rewards_G = np.nan_to_num(members.rewards_G)
        return rewards_G - rewards_G.mean() if members.size else rewards_G


class Shorter(Shaper):
    """Leaves out the last token."""

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        return [a_T[:-1].copy() for a_T in advantages_GT]


class Still(Surrogate):
    """Has no gradient."""

    def gain(self, tokens: TokenRatios) -> tuple[Tensor, Marks]:
        return (tokens.log_ratio.exp() * tokens.advantages).detach(), {}


class Hopeful(Verifier):
    """Takes what it cannot read for incorrect."""

    def reference(self, fields: Mapping[str, Any], answer: str) -> str:
        return str(fields[answer])

    def verify_answer(self, problem: Problem, text: str, finished: bool) -> Verdict:
        try:
            right = problem.answer in text.split()
        except Exception:  # noqa: BLE001 - the mistake
            right = False
        return Verdict(Outcome.CORRECT if right else Outcome.INCORRECT, float(right))

    def right(self, problem: Problem) -> str:
        return problem.answer


class Gossip(Environment):
    """Keeps its turns in the class."""

    turns: ClassVar[list[str]] = []

    def begin(self, problem: Problem, seed: int) -> str:
        self.turns.clear()
        return ""

    def step(self, text: str) -> Reply:
        self.turns.append(text)
        return Reply(f"{len(self.turns)};")
