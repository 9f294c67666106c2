"""What stages remember of problems from epoch to epoch, in bounded space."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")

MOST_PROBLEMS = 100_000
"""The most problems that a stage remembers: some 10 MB of a checkpoint. Endless tasks would fill any memory."""


def remember(memory: dict[str, T], problem_id: str, value: T, most: int = MOST_PROBLEMS) -> None:
    """Note ``value`` as the latest; where there are too many, the problem seen longest ago is forgotten.

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
