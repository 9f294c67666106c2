"""The outcome of a group: which rollouts count, and whether they all succeed or all fail."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

from outrider.record import Group, Rollout

GroupOutcome = Literal["mixed", "solved", "unsolved", "unscorable"]


def scorable(rollouts: Iterable[Rollout]) -> list[Rollout]:
    """Return the rollouts that count in a baseline: rollouts with a finite reward and at least one trainable token.

    Only the existence of a finite reward is tested, never the reward's value.
    """
    return [r for r in rollouts if r.reward is not None and math.isfinite(r.reward) and r.trainable_tokens]


def trainable(rollout: Rollout) -> bool:
    """Whether the rollout may be trained on: no stage has dropped it, and its request did not exclude it from
    training."""
    return not rollout.unused and rollout.context.trained != "excluded"


def evidence(rollouts: Iterable[Rollout]) -> list[Rollout]:
    """Return the scorable rollouts that are samples of the current policy: all except greedy and replayed rollouts.

    Greedy rollouts (:class:`outrider.explore.greedy.Greedy`) are recognised by two properties: their prompts have no
    hint or example, and they are excluded from training.
    """
    drawn = [r for r in scorable(rollouts) if not r.replayed]
    return [r for r in drawn if r.context.kind != "plain" or r.context.trained != "excluded"]


def first_pass(group: Group) -> list[Rollout]:
    """Return the rollouts that show how often the policy solves the problem from its prompt alone. These are samples of
    the current policy that the verifier could score (:func:`evidence`). Branches (continuations of other rollouts) and
    rollouts with hints or in-context examples do not count, nor do rollouts whose ``stream`` (their part of the loss)
    is not ``main``.
    """
    return [r for r in evidence(group.roots) if r.stream == "main" and r.context.kind == "plain"]


def pass_rate(group: Group) -> float | None:
    """Return the pass rate of the rollouts from the problem's plain prompt (:func:`first_pass`), or None if the
    verifier could score none of these rollouts.
    """
    counted = first_pass(group)
    return sum(r.success for r in counted) / len(counted) if counted else None


def outcome(group: Group) -> GroupOutcome:
    """Classify a group by its rollouts that are samples of the current policy and that the verifier could score
    (:func:`evidence`). The group is ``solved`` if all of these rollouts succeed, ``unsolved`` if all fail, and
    ``mixed`` otherwise.

    A group of one success and seven verifier errors is ``solved``: baselines exclude errors, so no failure remains to
    compare the success with. A group in which no rollout could be scored, such as an empty group, is ``unscorable``.
    """
    verdicts = {r.success for r in evidence(group.rollouts)}
    if len(verdicts) == 2:
        return "mixed"
    if not verdicts:
        return "unscorable"
    return "solved" if verdicts.pop() else "unsolved"
