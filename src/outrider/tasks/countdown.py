"""Countdown: reach a target from given numbers in several steps, and write the remaining numbers after each step.

::

    prompt     11 6 8 9>22:
    response   11-6=5,8 9 5;5+9=14,8 14;8+14=22

A step is a calculation, such as ``11-6=5``, then a comma and the remaining numbers. Steps are separated by semicolons,
and the last step has no remaining numbers. Every problem has a solution. The verifier replays the steps, so it does not
accept a guessed result.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import Counter
from functools import lru_cache
from typing import Annotated

from pydantic import Field, model_validator

from outrider.record import Problem, Verdict, correct, identity_seed, incorrect, unparseable
from outrider.tasks.dice import Dice
from outrider.tasks.epochs import in_pool
from outrider.tasks.heldout import ORDER, Order, drawn, shuffled
from outrider.tasks.task import Task

Operation = tuple[int, str, int, int]  # a, operator, b, result

_HELDOUT_SHARE = 16  # one problem in sixteen is held out
_STEP = re.compile(r"(\d{1,4})([-+*/])(\d{1,4})=(\d{1,4})")


class Countdown(Task):
    """Countdown problems. Every size (number of given numbers) in ``sizes`` is equally likely. The ids are
    ``countdown:<sorted numbers>><target>``.

    Training and held-out problems are disjoint by construction, because a hash of the sorted numbers and the target
    decides which problems are held out. A held-out problem therefore stays held out when its numbers are in another
    order.

    >>> task = Countdown()
    >>> p = task.train(0)
    >>> task.verify(p, p.metadata["solution"], finished=True).success
    True
    """

    sizes: tuple[Annotated[int, Field(ge=2, le=8)], ...] = Field(
        (3, 4, 5, 6),
        min_length=1,
        description=(
            "possible sizes of a problem's list of numbers, drawn with equal probability; each size is a difficulty "
            "level"
        ),
    )
    highest: int = Field(12, ge=2, le=99, description="largest number that may be given in a problem")
    cap: int = Field(
        60,
        ge=4,
        le=999,
        description=(
            "upper limit on the target number, and on intermediate results in the solution from which a problem is "
            "generated"
        ),
    )
    pool: int | None = Field(
        None,
        ge=1,
        description=(
            "number of problems in a finite training set that is repeated; null: an endless stream of new problems"
        ),
    )
    seed: int = Field(
        0, ge=0, description="random seed of the training problems; the held-out problems are the same for every seed"
    )
    heldout_order: Order = Field("shuffled", description=ORDER)

    @model_validator(mode="after")
    def _cap_holds_the_numbers(self) -> Countdown:
        if self.cap < self.highest:
            raise ValueError(f"cap ({self.cap}) must be at least highest ({self.highest})")
        return self

    @property
    def name(self) -> str:
        return "countdown"

    @property
    def fingerprint(self) -> str:
        pool = "" if self.pool is None else f"/{self.pool}"
        order = "/shuffled" if self.heldout_order == "shuffled" else ""
        return f"countdown/{','.join(map(str, self.sizes))}/{self.highest}/{self.cap}/{self.seed}{pool}{order}"

    def train(self, index: int) -> Problem:
        """Return problem ``index`` of the training stream. All problem sizes are equally likely.

        With a ``pool``, the stream repeats its first ``pool`` problems, in a new random order in every epoch.
        """
        index = in_pool(self.seed, index, self.pool)
        for attempt in itertools.count():
            # each draw has a new random generator, so that a problem depends only on its index, not on earlier draws
            draw = Dice(identity_seed(self.seed, "train", index, attempt))
            problem = _draw(draw, draw.one_of(self.sizes), self.highest, self.cap)
            if not is_heldout(problem.id):
                return problem
        raise AssertionError("unreachable")

    def heldout(self, n: int) -> list[Problem]:
        """Return the first ``n`` held-out problems, without duplicates, alternating between sizes. The option ``seed``
        has no effect.

        There are fewer than ``n`` problems if the options allow only few numbers. For example, with three numbers up to
        12 and the other defaults, 249 problems are held out. ``heldout_order: shuffled`` finds only 222 of these 249
        problems, because it draws a fixed number of random problems and keeps those that are held out.
        """
        if self.heldout_order == "shuffled":
            return _population(self.sizes, self.highest, self.cap)[:n]
        return drawn(
            self.sizes,
            lambda dice, size: _draw(dice, size, self.highest, self.cap),
            lambda problem: problem.id if is_heldout(problem.id) else None,
            seed="heldout",
            n=n,
        )

    def verify(self, problem: Problem, text: str, finished: bool) -> Verdict:
        """Replay the steps. Operands must be available, results must be correct, all numbers must be used, and the
        target must be reached.

        The lists of remaining numbers in a response are not verified. An error in such a list matters only if it leads
        to a wrong step. A truncated response is never correct. Verification takes time linear in the length of the
        text.
        """
        # a multiset, since two equal numbers may each be used once
        left = Counter(problem.answer["numbers"])
        value, steps = None, [part.split(",")[0] for part in text.split(";")]
        answer = ";".join(steps)  # majority votes compare the steps, since nearly all responses reach the target
        for number, step in enumerate(steps, 1):
            match = _STEP.fullmatch(step)
            if match is None:
                return unparseable(f"step {number} is not a calculation")
            a, operator, b, value = int(match[1]), match[2], int(match[3]), int(match[4])
            for operand in (a, b):
                if left[operand] == 0:
                    return incorrect(answer, f"step {number}: {operand} is not at hand")
                left[operand] -= 1
            if _apply(a, operator, b) != value:
                return incorrect(answer, f"step {number}: wrong arithmetic")
            left[value] += 1
        if not finished:
            return incorrect(answer, "truncated")
        if left.total() != 1:
            return incorrect(answer, f"{left.total() - 1} numbers unused")
        if value != problem.answer["target"]:
            return incorrect(answer, "not the target")
        return correct(answer)


def is_heldout(problem_id: str) -> bool:
    """Return whether a problem is held out, which depends only on its sorted numbers and its target."""
    return hashlib.blake2b(problem_id.encode(), digest_size=4).digest()[0] % _HELDOUT_SHARE == 0


@lru_cache(maxsize=8)  # takes half a second, which every run of a bench would spend again
def _population(sizes: tuple[int, ...], highest: int, cap: int) -> list[Problem]:
    found = shuffled(
        sizes,
        lambda dice, size: _random_solution(dice, size, highest, cap),
        lambda solution: key if is_heldout(key := _key(*solution)) else None,
        seed="countdown",
    )
    return [_problem(*solution) for solution in found]


def _draw(dice: Dice, size: int, highest: int, cap: int) -> Problem:
    return _problem(*_random_solution(dice, size, highest, cap))


def _problem(numbers: list[int], steps: list[Operation]) -> Problem:
    target = steps[-1][3]
    return Problem(
        id=_key(numbers, steps),
        prompt=f"{' '.join(map(str, numbers))}>{target}:",
        answer={"numbers": numbers, "target": target},
        level=str(len(numbers)),
        metadata={"solution": write_solution(numbers, steps)},
    )


def _key(numbers: list[int], steps: list[Operation]) -> str:
    return f"countdown:{','.join(map(str, sorted(numbers)))}>{steps[-1][3]}"


def write_solution(numbers: list[int], steps: list[Operation]) -> str:
    """Write a solution in the format that the policy must use.

    >>> write_solution([11, 6, 8, 9], [(11, "-", 6, 5), (5, "+", 9, 14), (8, "+", 14, 22)])
    '11-6=5,8 9 5;5+9=14,8 14;8+14=22'
    """
    left = list(numbers)
    written = []
    for a, operator, b, value in steps:
        left.remove(a)
        left.remove(b)
        remainder = "," + " ".join(map(str, [*left, value])) if left else ""
        left.append(value)
        written.append(f"{a}{operator}{b}={value}{remainder}")
    return ";".join(written)


def _apply(a: int, operator: str, b: int) -> int | None:
    if operator == "+":
        return a + b
    if operator == "-":
        return a - b
    if operator == "*":
        return a * b
    return a // b if b != 0 and a % b == 0 else None


def _random_solution(draw: Dice, size: int, highest: int, cap: int) -> tuple[list[int], list[Operation]]:
    """Combine two random numbers with a random legal operator until one number is left. This number becomes the
    target."""
    while True:
        numbers = [1 + draw.below(highest) for _ in range(size)]
        left, steps = list(numbers), []
        while len(left) > 1:
            a = left.pop(draw.below(len(left)))
            b = left.pop(draw.below(len(left)))
            legal = _legal(a, b, cap)
            if not legal:
                break
            operator = draw.one_of(legal)
            value = _apply(a, operator, b)
            assert value is not None
            steps.append((a, operator, b, value))
            left.append(value)
        else:
            return numbers, steps


def _legal(a: int, b: int, cap: int) -> str:
    """Return the operators that may stand between ``a`` and ``b``, which are in 1..cap. The value of the operation must
    be in 1..cap, and a division must be exact. If ``a`` or ``b`` is 1, ``*`` and ``/`` are excluded.
    """
    plus, minus = "+" if a + b <= cap else "", "-" if a > b else ""
    if a == 1 or b == 1:
        return plus + minus
    return plus + minus + ("*" if a * b <= cap else "") + ("/" if a % b == 0 else "")
