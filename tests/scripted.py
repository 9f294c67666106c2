"""Groups of rollouts that end as a test says, and what a stage sees of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from outrider.explore import View
from outrider.explore.rate import Rate
from outrider.explore.recalibration import Recalibration
from outrider.record import Group, Outcome, Problem, Rollout, StopReason, Verdict, identity_seed
from outrider.testing.scripted import POOL, SteppedEngine

LONG = 1 << 30  # a limit on prompts that none reaches


class Unmoved(Recalibration):
    """Leaves what levels and own pasts say as it is."""

    def learn(self, told: Sequence[tuple[Rate, int, int]]) -> None: ...


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
        made.append(rollout.verified(verdict, np.nan if ending == "e" else float(ending == "1")))
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

    return View(groups, step, round, progress, take, SteppedEngine(), seed, LONG)
