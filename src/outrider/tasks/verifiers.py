"""A task made from an environment of the package ``verifiers``."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field, PrivateAttr

from outrider.environments.environments import EnvironmentLimits, Environments, Failed
from outrider.environments.verifiers_messages import problem_of
from outrider.errors import UserError
from outrider.record import Problem
from outrider.tasks.epochs import permutation
from outrider.tasks.turn_task import TurnTask

if TYPE_CHECKING:  # not imported at run time, since a recipe may name the task without using it
    from outrider.environments.verifiers_environments import VerifiersEnvironments


class Verifiers(TurnTask):
    """A task made from an environment for the package ``verifiers`` 0.4. The environment's tasks are the problems, and
    its reward is the score.

    The environment's harness requests turns from the model. Every agent uses Outrider's sampler as its model, unless
    the agent specifies another model. The prompt consists of the environment's first messages and its tools. Later
    messages from tools or the user are observations. A rollout is one conversation. An episode has no verdict if the
    harness rewrites the conversation, or if a second agent also uses the policy.

    For a finite taskset, ``heldout_size`` random tasks are held out. For an endless taskset, the first ``heldout_size``
    tasks are held out.

    Raises:
        UserError: the package or the environment is not installed, the taskset has too few tasks, or the first request
            of a task is not a text prompt.
    """

    taskset: str = Field(
        min_length=1,
        description=(
            "id of an installed environment of the package `verifiers`, or name of a module in the recipe's folder"
        ),
    )
    config: dict[str, Any] = Field(
        default_factory=dict,
        description=(
            "fields of the environment's EnvConfig, such as {taskset: {split: train}}; a value for taskset.id is "
            "ignored"
        ),
    )
    python: str | None = Field(
        None,
        description=(
            "path of a Python interpreter that has the package verifiers; null: the interpreter that runs Outrider"
        ),
    )
    success_at: float = Field(1.0, description="minimum reward at which a rollout counts as correct")
    heldout_size: int = Field(
        50, ge=1, description="number of the environment's tasks that are held out for evaluation"
    )
    seed: int = Field(0, ge=0, description="random seed for the order of training problems")

    _problems: dict[int, Problem] = PrivateAttr(default_factory=dict)

    @property
    def name(self) -> str:
        return f"verifiers/{self.taskset}"

    @cached_property
    def fingerprint(self) -> str:
        """Identity of the data: a hash of the package version, the configuration, the first tasks and
        ``success_at``."""
        about = self._environments.about()
        shown = [
            about["ready"],
            self.config,
            self.seed,
            self.heldout_size,
            about["tasks"],
            about["keys"],
            self.success_at,
        ]
        return f"{self.name}/{hashlib.blake2b(json.dumps(shown).encode(), digest_size=12).hexdigest()}"

    @property
    def counts(self) -> Mapping[str, int]:
        tasks = self._environments.about()["tasks"]
        return {"heldout": self.heldout_size} | ({} if tasks is None else {"train": tasks - self.heldout_size})

    @property
    def conversational(self) -> bool:
        return True

    def train(self, index: int) -> Problem:
        tasks = self._tasks
        if tasks is None:
            return self._problem(self.heldout_size + index)
        epoch, position = divmod(index, tasks - self.heldout_size)
        chosen = int(permutation(self.seed, epoch, tasks - self.heldout_size)[position])
        return self._problem(int(self._order[self.heldout_size + chosen]))

    def heldout(self, n: int) -> list[Problem]:
        shown = range(min(n, self.heldout_size))
        return [self._problem(index if self._tasks is None else int(self._order[index])) for index in shown]

    def environments(self) -> Environments:
        return self._environments

    def close(self) -> None:
        """End the process in which the environment runs. If the task is used after this, it starts a new environment
        process."""
        if environments := self.__dict__.pop("_environments", None):
            environments.end()

    @cached_property
    def _environments(self) -> VerifiersEnvironments:
        from outrider.environments.verifiers_environments import VerifiersEnvironments

        config = {**self.config, "taskset": {**self.config.get("taskset", {}), "id": self.taskset}}
        limits = EnvironmentLimits(self.limits.seconds, self.limits.bytes)
        return VerifiersEnvironments(
            self.python or sys.executable, config, limits, self.limits.memory_gb, self.success_at
        )

    @property
    def _tasks(self) -> int | None:
        tasks: int | None = self._environments.about()["tasks"]
        if tasks is not None and tasks <= self.heldout_size:
            raise UserError(f"{self.name} has {tasks} tasks, and {self.heldout_size} are held out (heldout_size)")
        return tasks

    @property
    def _order(self) -> np.ndarray[Any, Any]:
        """A fixed random order of all tasks. It does not depend on ``seed``, so the same tasks are always held out."""
        assert self._tasks is not None
        return permutation(0, -1, self._tasks)

    def _problem(self, index: int) -> Problem:
        if index not in self._problems:
            request = self._environments.first_request(index)
            name = f"{self.taskset}:{index}"
            found = request if isinstance(request, Failed) else problem_of(name, index, request)
            if isinstance(found, Failed):
                raise UserError(f"problem {name!r}: {found.why}")
            self._problems[index] = found
        return self._problems[index]
