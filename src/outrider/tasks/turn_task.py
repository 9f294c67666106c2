"""The interface of a multi-turn task, which is a task with an environment."""

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
"""Minimum of ``limits.bytes`` for tasks that add markers around an observation."""


class TurnLimits(Options):
    """Limits of multi-turn rollouts and their environments."""

    old_keys: ClassVar[Mapping[str, str]] = {"worlds": "max_concurrent"}

    turns: int = Field(16, ge=1, description="maximum number of turns of the policy in a rollout")
    max_concurrent: int = Field(
        256,
        ge=1,
        description=(
            "maximum number of rollouts that run at the same time; exceeded only if a single problem has more rollouts "
            "than this maximum"
        ),
    )
    seconds: float = Field(
        10.0, gt=0, description="wall-clock limit in seconds for the environment's reply to one turn"
    )
    bytes: int = Field(
        4096,
        ge=1,
        description=(
            "maximum size in bytes of an observation (the environment's reply to a turn); longer observations are "
            "truncated, and counted in the metrics"
        ),
    )
    memory_gb: float = Field(
        2.0, gt=0, description="maximum memory, in GiB, that an environment's process may allocate after its start"
    )


class TurnTask(Task):
    """A task in which an environment replies to every turn of the policy, and verifies the rollout.

    A turn ends at an end token, or at one of the stop strings ``ends``, which are kept in the turn.
    """

    old_methods: ClassVar[Mapping[str, str]] = {"environment": "make_environment", "worlds": "environments"}

    trusted: ClassVar[bool] = False
    """Whether environments run in the run's own processes, because they hold no resources and reply at once."""

    limits: TurnLimits = Field(
        default_factory=TurnLimits,
        description=(
            "limits on the number and duration of turns, on concurrent rollouts, on observation size, and on memory"
        ),
    )

    @property
    def ends(self) -> Sequence[str]:
        """Stop strings that end a turn, in addition to end tokens."""
        return ()

    def make_environment(self) -> Environment:
        """Create an environment, without starting it."""
        raise NotImplementedError

    def makes(self) -> Make:
        """Return the function that creates environments. The function is unpickled once, in the process that forks the
        environments."""
        return self.make_environment

    def environments(self) -> Environments:
        """Create the pool in which the task's environments run."""
        limits = EnvironmentLimits(self.limits.seconds, self.limits.bytes)
        if self.trusted:
            return LocalEnvironments(self.makes(), limits)
        from outrider.environments.apart import ProcessEnvironments  # imported here, since the import is slow

        return ProcessEnvironments(self.makes(), limits, self.limits.memory_gb)

    @property
    def table(self) -> Task:
        """Return the task that provides the problems, which is this task unless a subclass overrides the method."""
        return self

    def demonstration(self, problem: Problem) -> list[str] | None:
        """Return the policy's turns of a correct rollout, or None if the task cannot provide one."""
        return None

    def example_turns(self, problem: Problem) -> list[str]:
        """Return turns to which the environment can reply, for tasks without demonstrations. The turns may be
        incorrect.

        By default, the first turns call each tool once, and a few turns with short texts follow.
        """
        end = self.ends[0] if self.ends else ""
        return [*example_calls(problem.tools), *(f"{word}{end}" for word in ("1", "2", "1"))]

    def right(self, problem: Problem) -> str | None:
        """Return None, since no single response is correct: a rollout also contains the environment's replies."""
        return None

    def verify(self, problem: Problem, text: str, finished: bool) -> Verdict:
        """Return the verdict ``incorrect``. This method gets only rollouts that a limit truncated, since the
        environment verifies all others."""
        return incorrect(detail="truncated")
