"""The worlds of the rollouts that are being drawn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

from outrider.environments.environment import Environment, Reply
from outrider.record import Problem

Make = Callable[[], Environment]
Key = tuple[int, int]  # a request, and a rollout of it


class Failed(NamedTuple):
    """A world that did not answer: it raised, hung, or died. It is gone."""

    why: str
    hung: bool = False


class Worlds(Protocol):
    """Worlds by the key of their rollout. A question is asked at once, and answered when it is."""

    def begin(self, key: Key, problem: Problem, seed: int) -> None:
        """Ask for a world; its first answer is a step with what it says at the start."""
        ...

    def act(self, key: Key, text: str) -> None:
        """Ask what a turn does."""
        ...

    def answers(self) -> Iterator[tuple[Key, Reply | Failed]]:
        """Those that are there, at least one of those that are asked for; none if none is."""
        ...

    def close(self, keys: Iterable[Key]) -> None:
        """End some worlds."""
        ...


class WorldsHere:
    """Worlds in this process, for environments that are trusted to return soon: they answer at once.

    Args:
        make: an environment, not begun.
        seconds: after which an answer is a failure; it cannot be cut short here.
    """

    def __init__(self, make: Make, seconds: float) -> None:
        self._make, self._seconds = make, seconds
        self._worlds: dict[Key, Environment] = {}
        self._answers: list[tuple[Key, Reply | Failed]] = []

    def begin(self, key: Key, problem: Problem, seed: int) -> None:
        world = self._worlds[key] = self._make()
        self._ask(key, lambda: Reply(world.begin(problem, seed)))

    def act(self, key: Key, text: str) -> None:
        self._ask(key, lambda: self._worlds[key].step(text))

    def answers(self) -> Iterator[tuple[Key, Reply | Failed]]:
        answered, self._answers = self._answers, []
        return iter(answered)

    def close(self, keys: Iterable[Key]) -> None:
        for key in keys:
            if (world := self._worlds.pop(key, None)) is not None:
                world.close()

    def _ask(self, key: Key, question: Callable[[], Reply]) -> None:
        begun = time.monotonic()
        try:
            answer: Reply | Failed = question()
        except Exception as error:  # noqa: BLE001 - whatever an environment raises costs its own rollout
            answer = Failed(f"{type(error).__name__}: {error}"[:200])
        if (took := time.monotonic() - begun) > self._seconds:
            answer = Failed(f"it took {took:.1f} s, more than {self._seconds:g}", hung=True)
        if isinstance(answer, Failed):
            self.close([key])
        self._answers.append((key, answer))
