"""What came of a group: which of its rollouts count, and whether they agree."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

from outrider.record import Group, Rollout

Outcome = Literal["mixed", "solved", "unsolved", "unscorable"]


def scorable(rollouts: Iterable[Rollout]) -> list[Rollout]:
    """The rollouts that count in a baseline: with a reward that is a number, and a token to train.

    Looks at whether there is a reward and never at its value, so it agrees with the ``valid_G`` of credit.
    """
    return [r for r in rollouts if r.reward is not None and math.isfinite(r.reward) and r.trainable_tokens]


def first_pass(group: Group) -> list[Rollout]:
    """The scorable rollouts that estimate the policy's pass rate: from the plain prompt, in stream ``main``.

    Branches start where another rollout already was, and seeded prompts show solutions: neither says how often the
    policy solves the problem by itself.
    """
    return [r for r in scorable(group.roots) if r.stream == "main" and r.context.kind == "plain"]


def outcome(group: Group) -> Outcome:
    """Whether the scorable rollouts agree on success: all ``solved``, all ``unsolved``, or ``mixed``.

    One success beside seven verifier errors is ``solved``: the errors are in no baseline, so nothing is compared.
    Without a scorable rollout the group is ``unscorable``, and so is an empty one.
    """
    verdicts = {r.success for r in scorable(group.rollouts)}
    if len(verdicts) == 2:
        return "mixed"
    if not verdicts:
        return "unscorable"
    return "solved" if verdicts.pop() else "unsolved"
