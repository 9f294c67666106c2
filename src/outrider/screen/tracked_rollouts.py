"""Builds the table that trackers show: rollouts from some groups of one step."""

from __future__ import annotations

import math
from collections.abc import Sequence

from outrider.record import Group, Rollout
from outrider.screen.tracker import TrackedTable, TrackedValue

COLUMNS = ("step", "problem", "prompt", "response", "verdict", "reward", "advantage", "tokens", "entropy")
LONGEST = 4000  # maximum characters per text; the run folder has the whole texts


def rollouts_table(step: int, groups: Sequence[Group], most: int) -> TrackedTable:
    """Return a table of at most ``most`` rollouts of a step, selected deterministically by :func:`chosen_rollouts`.

    If a rollout continues a prefix of another rollout, the column ``response`` includes this prefix. The column
    ``tokens`` counts only the tokens that were sampled for the rollout itself, and the column ``entropy`` has their
    mean entropy in nats. A text longer than ``LONGEST`` characters is cut and ends with the number of omitted
    characters.
    """
    rows = [_row(step, group, rollout) for group, rollout in chosen_rollouts(groups, most)]
    return TrackedTable(COLUMNS, rows)


def chosen_rollouts(groups: Sequence[Group], most: int) -> list[tuple[Group, Rollout]]:
    """Select at most ``most`` rollouts. Mixed groups (with successes and failures) come first. Apart from this, the
    order of ``groups`` is kept.

    If not all rollouts of a group can be selected, half of the selected ones have the group's highest rewards, and half
    have its lowest rewards. For example, 5 selected rollouts are the 3 with the highest and the 2 with the lowest
    rewards. Replayed rollouts are excluded, since an earlier step sampled them.
    """
    found: list[tuple[Group, Rollout]] = []
    for group in sorted((group.drawn for group in groups), key=lambda group: not group.mixed):
        found += [(group, rollout) for rollout in _extremes(group.rollouts, most - len(found))]
    return found


def _extremes(rollouts: Sequence[Rollout], n: int) -> Sequence[Rollout]:
    """Return up to ``n`` rollouts with the highest and the lowest rewards, in the group's order."""
    if len(rollouts) <= n:
        return rollouts
    ranked = sorted(rollouts, key=_interest, reverse=True)
    kept = [*ranked[: n - n // 2], *ranked[len(ranked) - n // 2 :]]
    return sorted(kept, key=lambda rollout: rollout.member)


def _interest(rollout: Rollout) -> float:
    """Return the reward by which rollouts are ranked. A missing or NaN reward ranks lowest."""
    return -math.inf if rollout.reward is None or math.isnan(rollout.reward) else rollout.reward


def _row(step: int, group: Group, rollout: Rollout) -> tuple[TrackedValue, ...]:
    return (
        step,
        _shown(rollout.problem_id),
        _shown(group.problem.question),
        _shown(rollout.response_text),
        None if rollout.verdict is None else rollout.verdict.outcome.value,
        rollout.reward,
        rollout.advantage,
        rollout.trainable_tokens,
        _entropy(rollout),
    )


def _entropy(rollout: Rollout) -> float | None:
    """Return the mean entropy over sampled tokens, or None if there are no entropies or no sampled tokens."""
    if rollout.entropies_T is None or not rollout.trainable_tokens:
        return None
    entropies_T = rollout.entropies_T if rollout.trainable_T is None else rollout.entropies_T[rollout.trainable_T]
    return float(entropies_T.mean(dtype=float))


def _shown(text: str) -> str:
    r"""Return ``text`` with lone surrogates escaped, since UTF-8 cannot encode them. A text of more than ``LONGEST``
    characters is cut.

    >>> _shown("a\ud800"), _shown("x" * 4321)[-20:]
    ('a\\ud800', 'x… (+321 characters)')
    """
    cut = text[:LONGEST].encode("utf-8", "backslashreplace").decode()
    return cut if len(text) <= LONGEST else f"{cut}… (+{len(text) - LONGEST:,} characters)"
