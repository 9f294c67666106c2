"""The stream of training problems and the place reached in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from outrider.errors import UserError
from outrider.record import Problem


class ProblemStream:
    """Takes problems from a task's endless, reproducible sequence, in order; its whole state is one integer.

    >>> stream = ProblemStream(lambda index: Problem(f"p{index}", ""))
    >>> [p.id for p in stream.take(2)], stream.position
    (['p0', 'p1'], 2)
    """

    def __init__(self, train: Callable[[int], Problem]) -> None:
        self._train = train
        self.position = 0

    def take(self, n: int) -> list[Problem]:
        """The next ``n`` problems, no id twice: one that returns within a batch is passed over, for a group holds one
        problem.

        Raises:
            UserError: the sequence repeats itself before ``n`` different problems are found.
        """
        found: dict[str, Problem] = {}
        passed_over = 0
        while len(found) < n:
            problem = self._train(self.position)
            self.position += 1
            passed_over += problem.id in found
            found.setdefault(problem.id, problem)
            if passed_over > 100 * n + 1000:
                raise UserError(
                    f"train.problems is {n}, but the task has only {len(found)} different problems to train on"
                )
        return list(found.values())

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.position = int(state["position"])
