"""Checks that environments are deterministic: branching requires equal observations for equal turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from outrider.environments.environment import Reply
from outrider.environments.environments import Environments, Failed
from outrider.environments.play import play, timeless
from outrider.record import Problem
from outrider.tasks.turn_task import TurnTask

PROBLEMS = 8  # number of problems, each of which is played twice


class EnvironmentsCompared(NamedTuple):
    """The results of playing each problem twice with the same turns.

    Attributes:
        played: number of problems that were played.
        otherwise: ids of the problems for which the environment replied differently in the two plays.
        failed: id of each problem whose environment failed, and the reason.
        answered: number of environment replies in the first play of each problem, in total. A reply that ends the
            rollout is not counted.
    """

    played: int
    otherwise: list[str]
    failed: list[str]
    answered: int

    @property
    def sentence(self) -> str:
        """The results as a sentence.

        >>> EnvironmentsCompared(8, [], [], 16).sentence
        'environments: 8 problems were played twice, with 16 turns answered; both plays were identical'
        """
        told = f"environments: {self.played} problems were played twice, with {self.answered} turns answered"
        if self.failed:
            return f"{told}; {len(self.failed)} failed, such as {self.failed[0]}"
        if self.otherwise:
            return (
                f"{told}; {len(self.otherwise)} differed between the two plays, such as {self.otherwise[0]}: "
                "branching recipes need environments that repeat their replies"
            )
        return f"{told}; both plays were identical"


def compare_environments(task: TurnTask, problems: Sequence[Problem]) -> EnvironmentsCompared:
    """Play the same turns (from a demonstration, or example turns) in two environments of each problem."""
    environments = task.environments()
    try:
        return _compared(task, environments, problems[:PROBLEMS])
    finally:
        environments.end()


def _compared(task: TurnTask, environments: Environments, problems: Sequence[Problem]) -> EnvironmentsCompared:
    otherwise, failed, answered = list[str](), list[str](), 0
    for number, problem in enumerate(problems):
        turns = task.demonstration(problem) or task.example_turns(problem)
        one, other = (play(environments, (number, k), problem, turns) for k in range(2))
        answered += sum(isinstance(said, Reply) and not said.done for said in one[1:])
        if bad := [said for said in (*one, *other) if isinstance(said, Failed)]:
            failed.append(f"{problem.id} ({bad[0].why})")
        # compared as text, since a score may be NaN, which is not equal to itself
        elif [repr(timeless(said)) for said in one] != [repr(timeless(said)) for said in other]:
            otherwise.append(problem.id)
    return EnvironmentsCompared(len(problems), otherwise, failed, answered)
