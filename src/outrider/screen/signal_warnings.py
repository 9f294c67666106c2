"""Warns during a run about steps without a learning signal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from outrider.record import Group

_FACTOR = 4  # a warning is repeated when the number of consecutive steps has grown by this factor


class SignalWatch:
    """Warns about steps in which all responses are truncated, all rewards are equal, or the policy is not updated.

    Each warning is issued at the first such step, and again after 4, 16, 64, … consecutive such steps.
    """

    def __init__(self) -> None:
        self._streaks: Counter[str] = Counter()

    def warnings(self, groups: Sequence[Group], metrics: Mapping[str, float]) -> list[str]:
        """Return the warnings about one step, from its groups and metrics."""
        rollouts = [rollout for group in groups for rollout in group.drawn.rollouts]
        rewards = [r.reward for r in rollouts if r.reward is not None and math.isfinite(r.reward)]
        found: dict[str, str] = {}
        if rollouts and all(rollout.truncated for rollout in rollouts):
            found["truncated"] = (
                f"all {len(rollouts)} responses are truncated, so no response has a complete answer; raise "
                "sample.max_tokens"
            )
        if len(rewards) > 1 and len(set(rewards)) == 1:
            found["equal"] = f"all {len(rewards)} rewards are {rewards[0]:g}, so every advantage is 0"
        elif metrics.get("learn/updates") == 0:
            found["no update"] = "no update: no response has an advantage"
        self._streaks = Counter({name: self._streaks[name] + 1 for name in found})
        return [
            sentence if self._streaks[name] == 1 else f"{sentence} ({self._streaks[name]} steps in a row)"
            for name, sentence in found.items()
            if _is_power(self._streaks[name])
        ]


def _is_power(streak: int) -> bool:
    """Return whether the number of consecutive steps is a power of ``_FACTOR``: 1, 4, 16, ….

    >>> [n for n in range(1, 100) if _is_power(n)]
    [1, 4, 16, 64]
    """
    while streak % _FACTOR == 0:
        streak //= _FACTOR
    return streak == 1
