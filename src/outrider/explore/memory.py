"""A bounded memory in which stages store data about problems across epochs."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")

MOST_PROBLEMS = 100_000
"""Maximum problems that a stage remembers, about 10 MB per checkpoint. Without a limit, a task with endless problems
would need unlimited memory."""


def remember(memory: dict[str, T], problem_id: str, value: T, most: int = MOST_PROBLEMS) -> None:
    """Store ``value`` as the latest entry. If there are then more than ``most`` entries, remove the oldest entry.

    >>> memory = {"a": 1, "b": 2}
    >>> remember(memory, "a", 3, most=2)
    >>> remember(memory, "c", 4, most=2)
    >>> memory
    {'a': 3, 'c': 4}
    """
    memory.pop(problem_id, None)
    memory[problem_id] = value
    while len(memory) > most:
        del memory[next(iter(memory))]
