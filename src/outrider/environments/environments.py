"""The environments of the rollouts that are being drawn."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from outrider.environments.environment import Environment, Reply, beginning, flooded
from outrider.record import Problem
from outrider.verify.plain_verdict import plain_verdict, writable

Make = Callable[[], Environment]
Key = tuple[int, int]  # a request, and a rollout of it


class Failed(NamedTuple):
    """An environment that did not answer: it raised, hung, died or flooded. It is gone."""

    why: str
    hung: bool = False


class EnvironmentLimits(NamedTuple):
    """What an environment may take for one turn.

    Attributes:
        seconds: of wall time, after which it has failed.
        most_bytes: of an observation in UTF-8; the rest of a longer one is truncated, and one beyond a MiB a failure.
    """

    seconds: float = 10.0
    most_bytes: int = 4096


class Environments(Protocol):
    """Environments by the key of their rollout. A question is asked at once, and answered when it is."""

    def begin(self, key: Key, problem: Problem, seed: int) -> None:
        """Ask for an environment; its first answer is a reply with what it says at the start."""
        ...

    def act(self, key: Key, text: str) -> None:
        """Ask what a turn does."""
        ...

    def answers(self) -> Iterator[tuple[Key, Reply | Failed]]:
        """Those that are there, at least one of those that are asked for; none if none is."""
        ...

    def close(self, keys: Iterable[Key]) -> None:
        """End some environments; those that are gone are passed over."""
        ...

    def end(self) -> None:
        """End all environments, and what they are made from; the next question starts it again."""
        ...


def asked(question: Callable[[], Any], limits: EnvironmentLimits) -> Reply | Failed:
    """What an environment says, made plain and as long as it may be; whatever it raises is its failure."""
    try:
        said = question()
        reply = said if isinstance(said, Reply) else Reply(said)
        if not isinstance(reply.observation, str):
            raise TypeError(f"it said {type(reply.observation).__name__}, not a text")
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
    """Environments in this process, for environments that are trusted to return: they answer at once."""

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
