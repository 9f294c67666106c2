"""Makes seeded random choices that are identical in every Python version."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """Random choices from a seed.

    >>> dice = Dice(0)
    >>> dice.below(10), dice.one_of("abc"), dice.shuffled([1, 2, 3])
    (8, 'c', [2, 1, 3])
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed).random  # in [0, 1); Python guarantees the sequence only of this method

    def below(self, n: int) -> int:
        return int(self.random() * n)

    def one_of(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in items]
