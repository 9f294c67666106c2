"""Adds a log ratio to each token of a rollout: its log-probability at the last update minus that at sampling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from outrider.record import Group
from outrider.record.row import WeightedRow


def with_log_ratios(
    groups: Sequence[Group], rows: Sequence[WeightedRow], logprobs: Sequence[NDArray[np.float32] | None]
) -> list[Group]:
    """Return the groups with the log ratio of each token: its log-probability at the last update minus that at
    sampling.

    Each row is matched with the rollout of its group that has the same seed.

    Args:
        rows: training rows of the step.
        logprobs: log-probabilities per row, from :class:`outrider.learn.learner.Updated`; empty if the engine does not
            return log-probabilities.

    Degenerate cases: a rollout gets no log ratios if it has no row, or if no update used its row. Rollouts with equal
    seeds in one group, which only external samplers produce, also get no log ratios.
    """
    if not logprobs:
        return list(groups)
    several = Counter((row.group, row.seed) for row in rows)
    seen = {
        (row.group, row.seed): found
        for row, found in zip(rows, logprobs, strict=True)
        if found is not None and several[row.group, row.seed] == 1
    }
    return [
        replace(
            group,
            rollouts=tuple(
                rollout if (found := seen.get((group.id, rollout.seed))) is None else rollout.trained_with(found)
                for rollout in group.rollouts
            ),
        )
        for group in groups
    ]
