"""Samples the rollouts of the next step while the learner updates the policy on the current step (``train.lag: 1``).

::

    sampler   step 1 | step 2 (version 0) | step 3 (version 1) | …
    learner          | step 1 → version 1 | step 2 → version 2 | …

A step ends when both sampler and learner are done, and the sampler then takes the new weights. Therefore, all rollouts
of step ``t`` are sampled with weight version ``max(0, t - 2)``. During evaluations and checkpoints, the next step is
not sampled and no update runs. A checkpoint contains the rollouts of the next step, so that a resumed run makes the
same updates.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from outrider.explore.explorer import Explored, Explorer
from outrider.processes.clock import OVERLAPPED, Clock
from outrider.record import Group, Problem
from outrider.record.store import RolloutStore
from outrider.train.collect import Collector

_NAME = "ahead"


class Ahead:
    """Samples the rollouts of the next step in another thread.

    Args:
        on: whether to sample the rollouts of the next step in advance.
        problems: number of problems per step.

    Attributes:
        explored: the groups of the next step, if they have been sampled in advance; otherwise None.
        error: the exception that interrupted the sampling of the next step, or None. After an exception, the explorer
            and the collector are restored to their state before the sampling.
    """

    def __init__(self, on: bool, explorer: Explorer, collect: Collector, problems: int, clock: Clock) -> None:
        self._on, self._explorer, self._collect, self._problems = on, explorer, collect, problems
        self._clock = clock
        self.explored: Explored | None = None
        self.error: Exception | None = None

    @contextmanager
    def exploring(self, step: int, progress: float) -> Iterator[None]:
        """Context manager that samples the rollouts of ``step`` in the background. On exit, it waits for the rollouts.

        Args:
            progress: share of the budget spent before ``step``; at 1 or more, there is no next step.
        """
        self.explored = None
        if not self._on or progress >= 1.0:
            yield
            return
        # pickled to copy the states, since explorer and collector modify the objects in them
        before = pickle.dumps((self._explorer.state_dict(), self._collect.state_dict()))
        clock = Clock()
        thread = threading.Thread(target=self._explore, args=(step, progress, self._collect.beside(clock)), daemon=True)
        thread.start()
        yield  # an error in the block ends the run, including this thread and its sampler
        with self._clock.phase("wait"):
            thread.join()
        self._clock.add({f"{OVERLAPPED}{phase}": seconds for phase, seconds in clock.take().items()})
        if self.error is not None:
            explorer, collect = pickle.loads(before)
            self._explorer.load_state_dict(explorer)
            self._collect.load_state_dict(collect)

    def _explore(self, step: int, progress: float, collect: Collector) -> None:
        try:
            with collect.clock.phase("explore"):
                self.explored = self._explorer.explore(step, self._problems, collect, progress)
        except Exception as error:  # noqa: BLE001 - raised by the loop after the current step is recorded
            self.error = error

    def state_dict(self) -> dict[str, Any]:
        """Return the groups (without rollouts) and metrics of the step that was sampled ahead, as JSON data. The result
        is empty if no step was sampled ahead."""
        if self.explored is None:
            return {}
        groups = [{"id": group.id, "problem": asdict(group.problem)} for group in self.explored.groups]
        return {_NAME: {"groups": groups, "metrics": self.explored.metrics}}

    def save(self, folder: Path) -> None:
        """Write the rollouts that were sampled ahead, if any, to a checkpoint."""
        if self.explored is not None:
            rollouts = [rollout for group in self.explored.groups for rollout in group.rollouts]
            RolloutStore(folder).write(0, rollouts, _NAME)

    def load(self, state: Mapping[str, Any], folder: Path) -> None:
        """Load the rollouts that were sampled in advance for the next step, if the checkpoint contains any."""
        self.explored = self.error = None
        if (saved := state.get(_NAME)) is not None:
            self.explored = Explored(_groups(saved["groups"], folder), saved["metrics"])


def _groups(saved: Sequence[Mapping[str, Any]], folder: Path) -> list[Group]:
    groups = {one["id"]: Group(_problem(one["problem"]), one["id"]) for one in saved}
    for rollout in RolloutStore(folder).read(0, _NAME):
        groups[rollout.group_id] = groups[rollout.group_id].joined([rollout])
    return list(groups.values())


def _problem(data: Mapping[str, Any]) -> Problem:
    before = data["messages_before"]
    return Problem(
        **{**data, "messages_before": None if before is None else tuple(before), "tools": tuple(data["tools"])}
    )
