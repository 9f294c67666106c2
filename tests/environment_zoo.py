"""Environments that behave badly, in a module of their own: their processes import it."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from pathlib import Path

from outrider.environments.environment import Environment, Reply
from outrider.record import Outcome, Problem, Verdict, correct


class Zoo(Environment):
    """Does what it is told."""

    def begin(self, problem: Problem, seed: int) -> str:
        self.problem, self.seed, self.turns = problem, seed, 0
        return f"{problem.prompt}{seed}"

    def step(self, text: str) -> Reply:
        self.turns += 1
        match text:
            case "raise":
                raise OSError("the disk is gone")
            case "exit":
                sys.exit(3)
            case "die":
                os._exit(0)
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                time.sleep(1000)
            case "grow":
                return Reply(str(len(bytearray(8 * 2**30))))
            case "long":
                return Reply("ä" * 10**5)
            case "flood":
                return Reply("ä" * 10**7)
            case "doubtful":
                return Reply(done=True, verdict=Verdict(Outcome.CORRECT, float("nan"), detail="by half"))
            case "number":
                return Reply(7)  # type: ignore[arg-type]
            case "nothing":
                return None  # type: ignore[return-value]
            case "short":
                return Reply("short", cut=True)
            case "surrogate":
                return Reply("a\ud800b", error="yes")  # type: ignore[arg-type]
            case "right":
                return Reply(done=True, verdict=True)  # type: ignore[arg-type]
            case "fork":
                if os.fork() == 0:
                    return Reply("from a child")
            case "child":
                if os.fork() == 0:
                    time.sleep(1000)
            case "print":
                os.write(1, b"x" * 100_000)
                os.write(2, b"x" * 100_000)
            case "done":
                return Reply("excluded", done=True, verdict=correct("7", "a\ud800b"))
        return Reply(f"{self.turns}:{text}")

    def close(self) -> None:
        if self.problem.answer == "hang":
            time.sleep(1000)
        if self.problem.answer == "slow":
            time.sleep(1.5)
            return
        if self.problem.answer is not None:
            Path(self.problem.answer).write_text(f"closed after {self.turns}")


class FewProcesses:
    """Makes environments where the system starts so many processes and no more, as far as their template knows."""

    def __init__(self, most: int) -> None:
        self.most = most

    def __setstate__(self, state: dict[str, int]) -> None:
        forked, fork = iter(range(state["most"])), os.fork

        def refused_at_last() -> int:
            if next(forked, None) is None:
                raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
            return fork()

        os.fork = refused_at_last

    def __call__(self) -> Zoo:
        return Zoo()


class Unbegun(Zoo):
    def begin(self, problem: Problem, seed: int) -> str:
        raise ValueError(f"no environment for {problem.id}")


class Waiting(Environment):
    """Answers a turn once the file exists that its problem names."""

    def begin(self, problem: Problem, seed: int) -> str:
        self.file, self.turns = problem.answer, 0
        return ""

    def step(self, text: str) -> Reply:
        while self.file and not Path(self.file).exists():
            time.sleep(0.01)
        self.turns += 1
        return Reply(f"{self.turns}:{len(text)},")
