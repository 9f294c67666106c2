"""Classes for TRL's environment_factory, in the form of its documentation; none knows of Outrider."""

from __future__ import annotations

import random
import time


class Counter:
    """A number that is counted up; the row says where it begins and where it has to end."""

    def reset(self, start: int, goal: int, **kwargs: object) -> str | None:
        self.value, self.goal = start, goal
        return f" You are at {start}."

    def add(self, step: int) -> str:
        """
        Add to the number.

        Args:
            step: How much to add.

        Returns:
            Where the number is now.
        """
        if step < 0:
            raise ValueError("Only upwards.")
        self.value += step
        return f"Now at {self.value}."

    async def look(self) -> int:
        """
        Say where the number is.

        Returns:
            The number.
        """
        return self.value

    def hang(self) -> str:
        """Never answer."""
        time.sleep(1000)
        return ""

    def _hidden(self) -> str:
        return "no tool"

    def get_reward(self) -> float:
        return float(self.value == self.goal)


class Silent:
    """Its reward is a function's affair, and it says nothing at the start."""

    def reset(self, **kwargs: object) -> None:
        self.calls = 0

    def press(self) -> str:
        """Press the button."""
        self.calls += 1
        return ""


class Flooding(Silent):
    """A tool of it answers with more than anyone can read."""

    def flood(self) -> str:
        """Answer without an end."""
        return "x" * 10**7

    def get_reward(self) -> float:
        return 1.0


class Dice(Silent):
    """Its start follows from the seeded generator."""

    def reset(self, **kwargs: object) -> str:
        self.number = random.randrange(10**6)
        return f" {self.number}"

    def get_reward(self) -> float:
        return 1.0


class Clock(Dice):
    """Its start follows from nothing."""

    def reset(self, **kwargs: object) -> str:
        return f" {time.perf_counter_ns()}"


class Watch(Silent):
    """What its tool says follows from nothing."""

    def press(self) -> str:
        """Press the button."""
        return str(time.perf_counter_ns())

    def get_reward(self) -> float:
        return 1.0


class Undescribed(Dice):
    def pull(self, how):
        return ""


class NoReset:
    def press(self) -> str:
        """Press."""
        return ""


class NoTools:
    def reset(self) -> None: ...

    def get_reward(self) -> float:
        return 1.0


def presses(completions, environments, **kwargs):
    """Half a point a press, as far as the answer says how many there were."""
    said = [completion[-1]["content"] for completion in completions]
    return [0.5 * e.calls if str(e.calls) in text else None for e, text in zip(environments, said, strict=True)]


def tidy(completions, goal, **kwargs):
    return [0.25 * goal[0] * (completions[0][0]["role"] == "assistant")]


def of_a_trainer(completions, trainer_state):
    return [0.0]


def two(completions, **kwargs):
    return [1.0, 2.0]
