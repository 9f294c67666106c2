"""The base class of tasks that combine the problems of a table with an environment."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from outrider.environments.environment import Environment
from outrider.environments.environments import Make
from outrider.record import Problem
from outrider.tasks.table import Table
from outrider.tasks.turn_task import TurnTask


class TurnTable(TurnTask):
    """A multi-turn task whose problems and verifier come from the task ``table``. In a subclass, ``makes`` returns the
    function that creates the environments."""

    problems: Table = Field(
        description="the problems, their prompts and answers, and the verifier, given as options of the task `table`"
    )

    @property
    def counts(self) -> Mapping[str, int]:
        return self.problems.counts

    @property
    def conversational(self) -> bool:
        return self.problems.conversational

    @property
    def table(self) -> Table:
        return self.problems

    def train(self, index: int) -> Problem:
        return self.problems.train(index)

    def heldout(self, n: int) -> list[Problem]:
        return self.problems.heldout(n)

    def makes(self) -> Make:
        raise NotImplementedError

    def make_environment(self) -> Environment:
        return self.makes()()

    def close(self) -> None:
        self.problems.close()
