"""Selects the held-out problems of an evaluation, and draws the held-out problems of tasks that generate problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Protocol, TypeVar

from outrider.errors import UserError
from outrider.record import Problem, identity_seed
from outrider.tasks.dice import Dice
from outrider.tasks.task import Task

T = TypeVar("T")
Order = Literal["shuffled", "drawn"]
ORDER = (
    "order of the held-out problems: shuffled (every part of the list has the same mix), or drawn (common problems "
    "first, as in versions up to 0.2)"
)
DRAWS = 65_536  # one draw in sixteen is held out, which gives about 4,000 problems in half a second
_LAST_DRAW = 100_000  # maximum draws for one problem in the order "drawn"; then its level counts as exhausted


def shuffled(
    levels: Sequence[int],
    draw: Callable[[Dice, int], T],
    key: Callable[[T], str | None],
    *,
    seed: str,
    draws: int = DRAWS,
) -> list[T]:
    """Return distinct held-out problems, alternating between difficulty levels. Within a level, the order is random, so
    that any part of the list is a random sample.

    For each level, ``draws / len(levels)`` problems are drawn. Duplicates are dropped, and the other problems are
    sorted by a hash of their key. Without this sorting, easy problems would tend to come first, because they are drawn
    more often.

    ``key`` returns a problem's identity, or None if the problem is for training. The returned list does not depend on
    the number of problems that are evaluated. The list ends when the level with the fewest problems is exhausted, so
    that all levels have equal shares.

    >>> found = shuffled([1, 2], lambda dice, level: dice.below(10**level), str, seed="doctest", draws=4000)
    >>> len(found), sorted(found[::2]), max(found[1::2]) > 9
    (20, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], True)
    """
    populations = []
    for level in levels:
        dice, found = Dice(identity_seed("heldout", seed, level)), dict[str, T]()
        for _ in range(draws // len(levels)):
            problem = draw(dice, level)
            if (name := key(problem)) is not None:
                found.setdefault(name, problem)
        populations.append([found[name] for name in by_hash(found)])
    return [problem for turn in zip(*populations, strict=False) for problem in turn]


def drawn(
    levels: Sequence[int], draw: Callable[[Dice, int], T], key: Callable[[T], str | None], *, seed: str, n: int
) -> list[T]:
    """Return the first ``n`` distinct held-out problems in the order of the draws, alternating between the difficulty
    levels ``levels``.

    Versions up to 0.2 used this order.
    """
    found: dict[str, T] = {}
    for k in range(n):
        for attempt in range(_LAST_DRAW):
            problem = draw(Dice(identity_seed(seed, k, attempt)), levels[k % len(levels)])
            name = key(problem)
            if name is not None and name not in found:
                found[name] = problem
                break
        else:
            break
    return list(found.values())


class HeldoutRange(Protocol):
    """The range of held-out problems to evaluate. The first ``skip`` problems are skipped, and the next ``problems``
    problems are used."""

    @property
    def problems(self) -> int: ...
    @property
    def skip(self) -> int: ...


def heldout_problems(task: Task, wanted: HeldoutRange) -> list[Problem]:
    """Return the problems of an evaluation. There are fewer problems than ``wanted`` if the task has too few held-out
    problems.

    Raises:
        UserError: the task has no problems in the range.
    """
    found = task.heldout(wanted.skip + wanted.problems)[wanted.skip :]
    if not found:
        beyond = f" beyond the first {wanted.skip} (evaluate.skip)" if wanted.skip else ""
        raise UserError(f"task {task.name!r} holds out no problems{beyond}, so there is nothing to evaluate")
    return found


def by_hash(names: Iterable[str]) -> list[str]:
    """Return names sorted by their hashes, so that the result does not depend on the order of the input."""
    return sorted(names, key=lambda name: (identity_seed("heldout", name), name))
