"""The table of rollouts that trackers are sent: whole groups of one step."""

from __future__ import annotations

import math
from collections.abc import Sequence

from outrider.record import Group, Rollout
from outrider.screen.tracker import TrackedTable, TrackedValue

COLUMNS = ("step", "problem", "prompt", "response", "verdict", "reward", "advantage", "tokens", "entropy")
LONGEST = 4000  # characters of a text; a table is for a look, and the run folder has the rest


def rollouts_table(step: int, groups: Sequence[Group], most: int) -> TrackedTable:
    """At most ``most`` rollouts of a step, the same each time: :func:`chosen_rollouts`.

    The response of a branch is whole, with its prefix; ``tokens`` are the sampled own ones, ``entropy`` is their mean
    in nats. A text of more than ``LONGEST`` characters is cut, which says by how much.
    """
    rows = [_row(step, group, rollout) for group, rollout in chosen_rollouts(groups, most)]
    return TrackedTable(COLUMNS, rows)


def chosen_rollouts(groups: Sequence[Group], most: int) -> list[tuple[Group, Rollout]]:
    """Groups with successes and failures first, then the others, each in the step's order, until there are ``most``.

    The last group is cut where it does not fit, to those of the highest and those of the lowest rewards in equal
    numbers (of an odd number, the highest have one more; of equal rewards, the first members). Replayed rollouts are
    excluded: an earlier step has drawn them.
    """
    found: list[tuple[Group, Rollout]] = []
    for group in sorted((group.drawn for group in groups), key=lambda group: not group.mixed):
        found += [(group, rollout) for rollout in _extremes(group.rollouts, most - len(found))]
    return found


def _extremes(rollouts: Sequence[Rollout], n: int) -> Sequence[Rollout]:
    """``n`` rollouts of a group, in the order of its members."""
    if len(rollouts) <= n:
        return rollouts
    ranked = sorted(rollouts, key=_interest, reverse=True)
    kept = [*ranked[: n - n // 2], *ranked[len(ranked) - n // 2 :]]
    return sorted(kept, key=lambda rollout: rollout.member)


def _interest(rollout: Rollout) -> float:
    """The reward; one that is missing or unscorable is below all."""
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
    """Mean over sampled tokens; None where the engine gave none, or nothing was sampled."""
    if rollout.entropies_T is None or not rollout.trainable_tokens:
        return None
    entropies_T = rollout.entropies_T if rollout.trainable_T is None else rollout.entropies_T[rollout.trainable_T]
    return float(entropies_T.mean(dtype=float))


def _shown(text: str) -> str:
    r"""A text as trackers take it: lone surrogates, which UTF-8 has not, as escapes; cut where it is long.

    >>> _shown("a\ud800"), _shown("x" * 4321)[-20:]
    ('a\\ud800', 'x… (+321 characters)')
    """
    cut = text[:LONGEST].encode("utf-8", "backslashreplace").decode()
    return cut if len(text) <= LONGEST else f"{cut}… (+{len(text) - LONGEST:,} characters)"
