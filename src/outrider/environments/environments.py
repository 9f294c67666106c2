"""Interface of a pool of environments, with one environment for each rollout that is being sampled. The module also has
an implementation that runs the environments in the process of the caller.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from outrider.environments.environment import Environment, Reply, beginning, flooded
from outrider.record import Problem
from outrider.verify.plain_verdict import plain_verdict, writable

Make = Callable[[], Environment]
Key = tuple[int, int]  # index of a sampling request, and index of a rollout within the request


class Failed(NamedTuple):
    """The answer for an environment that was ended because it raised an error, hung, died or sent too much text."""

    why: str
    hung: bool = False


class EnvironmentLimits(NamedTuple):
    """Limits of an environment per turn.

    Attributes:
        seconds: maximum wall-clock time for a reply; a slower environment fails.
        most_bytes: maximum UTF-8 bytes of an observation. Longer observations are truncated. If an observation is
            longer than both ``most_bytes`` and 1 MiB, the environment fails.
    """

    seconds: float = 10.0
    most_bytes: int = 4096


class Environments(Protocol):
    """A pool of environments, each identified by the key of its rollout. Requests return at once; answers arrive
    later."""

    def begin(self, key: Key, problem: Problem, seed: int) -> None:
        """Request a new environment. The environment's first answer is a reply with the observation that precedes the
        first turn.
        """
        ...

    def act(self, key: Key, text: str) -> None:
        """Send the text of the policy's turn to an environment."""
        ...

    def answers(self) -> Iterator[tuple[Key, Reply | Failed]]:
        """Yield the answers that have arrived; while requests are pending, first wait until there is an answer."""
        ...

    def close(self, keys: Iterable[Key]) -> None:
        """End the environments with these keys, except failed environments, which have already ended."""
        ...

    def end(self) -> None:
        """End all environments and the process that forks them. The next request starts this process again."""
        ...


def asked(question: Callable[[], Any], limits: EnvironmentLimits) -> Reply | Failed:
    """Call ``question``, and return the environment's reply with the observation truncated to ``limits.most_bytes``. If
    the call raises an exception, return Failed."""
    try:
        said = question()
        reply = said if isinstance(said, Reply) else Reply(said)
        if not isinstance(reply.observation, str):
            raise TypeError(f"its observation is {type(reply.observation).__name__}, not a string")
        if not reply.done and (flood := flooded([reply.observation], limits.most_bytes)):
            return Failed(flood)
        longer = len(reply.observation.encode("utf-8", "replace")) > limits.most_bytes
        text = beginning(reply.observation, limits.most_bytes)
        verdict = None if reply.verdict is None else plain_verdict(reply.verdict)
        return Reply(text, bool(reply.done), verdict, bool(reply.error), bool(reply.cut) or longer)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return Failed(writable(f"{type(error).__name__}: {error}"[:300]))


class LocalEnvironments:
    """Runs trusted environments in this process. An environment that hangs stops the whole run."""

    def __init__(self, make: Make, limits: EnvironmentLimits) -> None:
        self._make, self._limits = make, limits
        self._environments: dict[Key, Environment] = {}
        self._answers: list[tuple[Key, Reply | Failed]] = []

    def begin(self, key: Key, problem: Problem, seed: int) -> None:
        environment = self._environments[key] = self._make()
        self._ask(key, lambda: environment.begin(problem, seed))

    def act(self, key: Key, text: str) -> None:
        self._ask(key, lambda: self._environments[key].step(text))

    def answers(self) -> Iterator[tuple[Key, Reply | Failed]]:
        answered, self._answers = self._answers, []
        return iter(answered)

    def close(self, keys: Iterable[Key]) -> None:
        for key in keys:
            if (environment := self._environments.pop(key, None)) is not None:
                with contextlib.suppress(Exception):
                    environment.close()

    def end(self) -> None:
        self.close(list(self._environments))
        self._answers.clear()

    def _ask(self, key: Key, question: Callable[[], Any]) -> None:
        begun = time.monotonic()
        answer = asked(question, self._limits)
        if (took := time.monotonic() - begun) > self._limits.seconds:
            answer = Failed(f"it took {took:.1f} s, more than {self._limits.seconds:g}", hung=True)
        if isinstance(answer, Failed):
            self.close([key])
        self._answers.append((key, answer))
