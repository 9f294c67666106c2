"""A task that consists of a table of problems and a user's environment, which is a Python class."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from outrider.environments.environment import Environment, Reply
from outrider.environments.environments import Make
from outrider.errors import UserError
from outrider.importing import load_object, source_of
from outrider.plugins import import_path_of, unknown_name
from outrider.record import Problem, Verdict
from outrider.tasks.turn_table import TurnTable
from outrider.verify.thinking import TurnThinking
from outrider.verify.verifier import Verifier


def _named(written: str) -> str:
    if sentence := unknown_name(written, "my_env.py:Guess"):
        raise ValueError(sentence)
    return written


class EnvironmentTask(TurnTable):
    """A task with the problems of a table and a user's environment, which is a subclass of
    :class:`outrider.environments.environment.Environment`.

    If the environment ends a rollout without a verdict, the table's verifier verifies the text of the last turn.
    Environments run in separate processes with limits on memory and time, but not in a sandbox.

    Raises:
        UserError: the class does not exist, cannot be imported, or is not an environment.
    """

    old_keys: ClassVar[Mapping[str, str]] = {"world": "environment"}

    environment: Annotated[str, AfterValidator(_named)] = Field(
        description=(
            "environment class, written as module:Class, as path/to/file.py:Class, or as a name registered by an "
            "installed package"
        )
    )
    stop: list[Annotated[str, Field(min_length=1)]] = Field(
        default_factory=list,
        description=(
            "stop strings, which end a turn of the policy as an end-of-sequence token does; the turn includes the stop "
            "string"
        ),
    )

    @property
    def name(self) -> str:
        return f"{self.environment.rpartition(':')[2]} on {self.problems.name}"

    @cached_property
    def fingerprint(self) -> str:
        """Identity of the data, which changes with the problems and with the source file of the environment class."""
        load_environment(self.environment)
        source = hashlib.blake2b(source_of(import_path_of(self.environment)).encode(), digest_size=8).hexdigest()
        # "world" is the old name of this task. It must stay here, since checkpoints store the fingerprint
        return f"world/{self.environment}/{source}/{self.problems.fingerprint}"

    @property
    def ends(self) -> Sequence[str]:
        return self.stop

    def makes(self) -> Make:
        return MakeEnvironment(self.environment, self.problems.verifier)


class MakeEnvironment:
    """Picklable function that creates environments of one class. A process that unpickles the function imports the
    class again."""

    def __init__(self, where: str, verifier: Verifier) -> None:
        self.where, self.verifier = where, verifier
        self._class = load_environment(where)

    def __getstate__(self) -> tuple[str, Verifier]:
        return self.where, self.verifier

    def __setstate__(self, state: tuple[str, Verifier]) -> None:
        self.where, self.verifier = state
        self.verifier.prepare()
        self._class = load_environment(self.where)

    def __call__(self) -> Environment:
        return VerifiedEnvironment(self._class(), self.verifier)


class VerifiedEnvironment(Environment):
    """Wraps an environment. If the environment ends a rollout without a verdict, ``verifier`` verifies the last
    turn."""

    def __init__(self, environment: Environment, verifier: Verifier) -> None:
        self._environment, self._verifier = environment, verifier

    def begin(self, problem: Problem, seed: int) -> str:
        self._thinking = TurnThinking(problem, self._verifier.thinking)
        return self._environment.begin(problem, seed)

    def step(self, text: str) -> Reply:
        problem = self._thinking.problem
        self._thinking.split(text)
        reply = self._environment.step(text)
        if not reply.done or reply.verdict is not None:
            return reply
        verdict: Verdict = self._verifier.verify(problem, text, True)
        return reply._replace(verdict=verdict)

    def close(self) -> None:
        self._environment.close()


def load_environment(name: str) -> type[Environment]:
    """Load the environment class, by import path or by the name of an entry point.

    Raises:
        UserError: the class does not exist, or is not an environment.
    """
    where = import_path_of(name)
    found = load_object(where, "environment")
    if not (inspect.isclass(found) and issubclass(found, Environment)):
        raise UserError(
            f"{where} is no environment: a class with begin and step, derived from "
            "outrider.environments.environment.Environment"
        )
    if missing := sorted(getattr(found, "__abstractmethods__", ())):
        raise UserError(f"{where} has no {missing[0]}, which an environment has")
    return found
