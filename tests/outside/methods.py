"""Components as an author of methods writes them, in a file outside the package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field, PrivateAttr

from outrider.arrays import Floats
from outrider.credit import Baseline, Members, Shaper
from outrider.environments.environment import Environment, Reply
from outrider.explore.stage import Stage
from outrider.explore.view import View
from outrider.objective.ratio import Marks, TokenRatios
from outrider.objective.surrogate import Surrogate
from outrider.record import Group, Outcome, Problem, SampleRequest, Verdict, correct, incorrect
from outrider.verify.verifier import Verifier

if TYPE_CHECKING:  # the processes of environments and verifiers need no torch
    from torch import Tensor


class Retry(Stage):
    """More rollouts of every problem without a success, once a step."""

    n: int = Field(4, ge=1, description="rollouts per problem")
    _rescued: int = PrivateAttr(0)

    def plan(self, view: View) -> list[SampleRequest]:
        if view.round > 0:
            return []
        return [SampleRequest(g.problem, n=self.n) for g in view.groups if not g.successes and not g.dropped]

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        for group in groups:
            early = [r for r in group.rollouts if not r.stage.endswith("retry")]
            self._rescued += group.successes > 0 and not any(r.success for r in early)
        return {"rescued": float(self._rescued)}

    def state_dict(self) -> dict[str, int]:
        return {"rescued": self._rescued}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        self._rescued = state["rescued"]


class Median(Baseline):
    """Reward minus the median of the group."""

    def advantages(self, members: Members) -> Floats:
        return np.where(members.valid_G, members.rewards_G - np.median(members.rewards_G[members.valid_G]), 0.0)


class Half(Shaper):
    """A share of every advantage."""

    share: float = Field(0.5, gt=0, description="factor of every advantage")

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        return [self.share * a_T for a_T in advantages_GT]


class Plain(Surrogate):
    """The ratio times the advantage, without a clip."""

    def gain(self, tokens: TokenRatios) -> tuple[Tensor, Marks]:
        return tokens.log_ratio.exp() * tokens.advantages, {}


class Contains(Verifier):
    """Correct where the answer of the row occurs in the response."""

    def reference(self, fields: Mapping[str, Any], answer: str) -> str:
        return str(fields[answer])

    def verify_answer(self, problem: Problem, text: str, finished: bool) -> Verdict:
        right = problem.answer in text
        return Verdict(Outcome.CORRECT if right else Outcome.INCORRECT, float(right))

    def right(self, problem: Problem) -> str:
        return problem.answer


class Guess(Environment):
    """Says whether the number is larger or smaller, four times."""

    def begin(self, problem: Problem, seed: int) -> str:
        self.number, self.left = int(problem.answer), 4
        return ""

    def step(self, text: str) -> Reply:
        guess, self.left = text.rstrip(";,"), self.left - 1
        if guess == str(self.number) or self.left == 0:
            return Reply(done=True, verdict=correct(guess) if guess == str(self.number) else incorrect(guess))
        if not guess.isdecimal() or len(guess) > 9:
            return Reply("*;", error=True)
        return Reply("+;" if int(guess) < self.number else "-;")


class NoStage:
    """Of no kind."""


class Old(Stage):
    """Says what it needs as components of 0.2 did."""

    reads_entropies: ClassVar[bool] = True
