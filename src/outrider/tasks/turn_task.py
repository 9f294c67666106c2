"""The contract of a task whose rollouts have turns: a task with an environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pydantic import Field

from outrider.environments.environment import Environment
from outrider.environments.environments import EnvironmentLimits, Environments, LocalEnvironments, Make
from outrider.environments.tool_calls import example_calls
from outrider.options import Options
from outrider.record import Problem, Verdict, incorrect
from outrider.tasks.task import Task

MARKS = 100
"""Bytes that an observation has to be allowed to have, so that a task can say in it where it begins and ends."""


class TurnLimits(Options):
    """What a rollout of several turns may take, and what its environment may."""

    old_keys: ClassVar[Mapping[str, str]] = {"worlds": "max_concurrent"}

    turns: int = Field(16, ge=1, description="maximum turns per rollout")
    max_concurrent: int = Field(256, ge=1, description="maximum concurrent rollouts; at least those of one problem")
    seconds: float = Field(10.0, gt=0, description="wall-clock limit in seconds of an environment's turn")
    bytes: int = Field(4096, ge=1, description="maximum bytes of an observation; longer ones are truncated and counted")
    memory_gb: float = Field(2.0, gt=0, description="maximum memory growth of an environment's process in GiB")


class TurnTask(Task):
    """A task in which an environment answers every turn, and verifies.

    A turn ends where the policy ends, or with one of ``ends``, texts that stay in it.
    """

    old_methods: ClassVar[Mapping[str, str]] = {"environment": "make_environment", "worlds": "environments"}

    trusted: ClassVar[bool] = False
    """Whether its environments run in the processes of the run: they hold nothing, and always answer at once."""

    limits: TurnLimits = Field(default_factory=TurnLimits, description="limits of turns and observations")

    @property
    def ends(self) -> Sequence[str]:
        """Texts that end a turn."""
        return ()

    def make_environment(self) -> Environment:
        """A new one, not begun."""
        raise NotImplementedError

    def makes(self) -> Make:
        """What makes environments; unpickled once, where they are forked from."""
        return self.make_environment

    def environments(self) -> Environments:
        """Where its environments run."""
        limits = EnvironmentLimits(self.limits.seconds, self.limits.bytes)
        if self.trusted:
            return LocalEnvironments(self.makes(), limits)
        from outrider.environments.apart import ProcessEnvironments  # not at the top: processes are slow to import

        return ProcessEnvironments(self.makes(), limits, self.limits.memory_gb)

    @property
    def table(self) -> Task:
        """The task whose problems it has, if that is another one."""
        return self

    def demonstration(self, problem: Problem) -> list[str] | None:
        """The turns of a rollout that has to be accepted as correct; None where none can be made."""
        return None

    def example_turns(self, problem: Problem) -> list[str]:
        """Turns that its environment can answer, right or not, for where there is no demonstration: a call of each
        tool, and short words."""
        end = self.ends[0] if self.ends else ""
        return [*example_calls(problem.tools), *(f"{word}{end}" for word in ("1", "2", "1"))]

    def right(self, problem: Problem) -> str | None:
        """None: a right rollout has what the environment says in it."""
        return None

    def verify(self, problem: Problem, text: str, finished: bool) -> Verdict:
        """A rollout that its environment has not verified was truncated by a limit, which is incorrect."""
        return incorrect(detail="truncated")
