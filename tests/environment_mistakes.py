"""Environments that each break one law of ``outrider.testing``, in a module that their processes import."""

from __future__ import annotations

import random
import time
from typing import ClassVar

from outrider.environments.environment import Environment, Reply
from outrider.record import Outcome, Problem, Verdict, correct


class Counts(Environment):
    """Says how many turns there were; it keeps the laws."""

    def begin(self, problem: Problem, seed: int) -> str:
        self.problem, self.turns = problem, 0
        return "go"

    def step(self, text: str) -> Reply:
        self.turns += 1
        return Reply(str(self.turns), done=self.turns == 4, verdict=correct(text) if self.turns == 4 else None)


class SaysNumbers(Counts):
    def step(self, text: str) -> Reply:
        return Reply(7)  # type: ignore[arg-type]


class SaysNothing(Counts):
    def step(self, text: str) -> Reply:
        return None  # type: ignore[return-value]


class Contradicts(Counts):
    def step(self, text: str) -> Reply:
        return Reply(done=True, verdict=Verdict(Outcome.CORRECT, float("nan")))


class VerifiesEarly(Counts):
    def step(self, text: str) -> Reply:
        return Reply(verdict=correct(text))


class Raises(Counts):
    def step(self, text: str) -> Reply:
        raise KeyError(text)


class UsesUp(Counts):
    """Takes an item out of the problem, which is not its own."""

    def begin(self, problem: Problem, seed: int) -> str:
        super().begin(problem, seed)
        return str(problem.answer.pop())


class Draws(Counts):
    def step(self, text: str) -> Reply:
        return Reply(str(random.random()))


class Hashes(Counts):
    """Says what differs from process to process."""

    def step(self, text: str) -> Reply:
        return Reply(str(hash(text)))


class Shares(Counts):
    """Has its turns in the class."""

    seen: ClassVar[list[str]] = []

    def begin(self, problem: Problem, seed: int) -> str:
        self.seen.clear()
        return ""

    def step(self, text: str) -> Reply:
        self.seen.append(text)
        return Reply(",".join(self.seen))


class ClosesAll(Counts):
    """Has one connection for all, which closing one closes."""

    opened: ClassVar[set[str]] = set()

    def begin(self, problem: Problem, seed: int) -> str:
        self.opened.add("connection")
        return ""

    def step(self, text: str) -> Reply:
        return Reply("open" if self.opened else "closed")

    def close(self) -> None:
        self.opened.clear()


class WantsNumbers(Counts):
    def step(self, text: str) -> Reply:
        return Reply(str(int(text)))


class Waits(Counts):
    def step(self, text: str) -> Reply:
        if not text.strip():
            time.sleep(60)
        return Reply("on")


class Echoes(Counts):
    def step(self, text: str) -> Reply:
        return Reply(text * 100)


class ClosesLate(Counts):
    def close(self) -> None:
        del self.file

    def step(self, text: str) -> Reply:
        self.file = text
        return Reply("on")
