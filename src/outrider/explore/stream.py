"""The stream of training problems, and the stream's current position."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any

from outrider.record import Problem


class ProblemStream:
    """Takes problems in order from a task's endless, reproducible sequence; its state is a single integer.

    >>> stream = ProblemStream(lambda index: Problem(f"p{index}", ""))
    >>> [p.id for p in stream.take(2)], stream.position
    (['p0', 'p1'], 2)
    """

    def __init__(self, train: Callable[[int], Problem]) -> None:
        self._train = train
        self.position = 0

    def take(
        self, n: int, present: Container[str] = (), admits: Callable[[Problem], bool] = lambda problem: True
    ) -> list[Problem]:
        """Take the next ``n`` admitted problems, without repeated ids and without problems ``present`` in the step.

        The result is shorter if more than ``1000 n + 1000`` problems were skipped, since the task may have no suitable
        problems left.
        """
        found: dict[str, Problem] = {}
        passed_over = 0
        while len(found) < n and passed_over <= 1000 * n + 1000:
            problem = self._train(self.position)
            self.position += 1
            if problem.id in found or problem.id in present or not admits(problem):
                passed_over += 1
            else:
                found[problem.id] = problem
        return list(found.values())

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.position = int(state["position"])
