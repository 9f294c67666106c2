"""Allocation by value (Knapsack RL): each rollout goes to the problem where it adds the most value to the update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import Any

from pydantic import Field, PrivateAttr, model_validator

from outrider.explore.allocation import Allocation
from outrider.explore.apportion import raised
from outrider.explore.memory import remember
from outrider.explore.outcome import first_pass
from outrider.record import Group, Problem


def value(n: int, p: float) -> float:
    """Return ``V(n, p) = (1 - p^n - (1 - p)^n) p (1 - p)^2``, the value of ``n`` rollouts of a problem with pass rate
    ``p``.

    The value is the probability that the group is mixed, times the first-order increase of ``p`` in a gradient step. A
    mixed group has both successes and failures, and therefore a gradient. The value is concave in ``n``, and 0 if ``n``
    is 1 or if ``p`` is 0 or 1.

    >>> value(2, 0.5), value(1, 0.5), value(8, 0.0)
    (0.0625, 0.0, 0.0)
    """
    return (1 - p**n - (1 - p) ** n) * p * (1 - p) ** 2


def enough(p: float, chance: float, most: int) -> int:
    """Return the number of rollouts, at most ``most``, that yield both a success and a failure with a probability of
    about ``chance``.

    The number is ``log(1 - chance) / log(max(p, 1 - p))``, rounded down.

    >>> enough(0.5, 0.9, 128), enough(1 / 16, 0.9, 128), enough(1 / 93, 0.9, 128)
    (3, 35, 128)
    """
    return int(min(most, log(1 - chance) / log(max(p, 1 - p))))


class Knapsack(Allocation):
    """Allocates ``n`` rollouts per problem on average, to maximise the sum of :func:`value`.

    A problem's pass rate ``p`` is estimated from the last step that sampled the problem. If this step sampled fewer
    than ``window`` rollouts of the problem, the estimate uses the problem's last ``window`` rollouts. The pass rate
    counts as known after ``known`` rollouts. Problems with an unknown pass rate get ``n`` rollouts, and all other
    problems start with ``min_n``. The remaining budget is spent exactly, with at most ``max_n`` rollouts per problem:

    1. problems with ``0 < p < 1`` get more rollouts. Each rollout goes to the problem whose :func:`value` increases
       most. The total number of these rollouts is at most the sum of :func:`enough` over these problems;
    2. the rest goes evenly to known unsolved problems (``p = 0``), or to solved problems if no problem is unsolved;
    3. rollouts may be left over because problems have reached ``max_n``. They go to solved problems (evenly), then to
       problems with ``0 < p < 1`` (by :func:`value`), and then to all problems (evenly).

    Values are concave in ``n``, so this greedy allocation by largest gain is the optimum of the knapsack problem that
    the paper solves by dynamic programming. In a recipe's list ``explore``, this stage takes the place of ``uniform``,
    which samples equally many rollouts for every problem.

    The stage learns from every rollout that the verifier could score, including rollouts in dropped groups. Branches
    (continuations of other rollouts) and rollouts with hints or in-context examples are ignored. Degenerate cases: for
    an empty batch the stage requests nothing. Problems that already have rollouts get no further rollouts. The
    allocation is uniform in the first epoch. If no problem has ``0 < p < 1``, the rest of the budget goes to unsolved
    problems. The last 100,000 problems are remembered.

    Source: Li et al. 2025, "Knapsack RL", arXiv 2509.25849, following its released code (exploration_utils.py and
    rl_dataset.py). We read only summaries of the paper. Differences: in the released code, the first ``min_n`` rollouts
    have the value 0 instead of ``V(min_n, p)``. The released code therefore overestimates the gain from the next
    rollout of every problem with ``0 < p < 1``. In item 2, the released code also gives rollouts to new problems, and
    may exceed ``max_n``. If a batch has only mixed problems and some budget is left over, the released code either
    divides by zero or allocates fewer rollouts than the budget allows.

    Raises:
        ValidationError: ``min_n <= n <= max_n`` or ``known <= window`` does not hold.

    >>> Knapsack().max_n
    128
    """

    max_n: int = Field(128, ge=1, description="maximum number of rollouts per problem in a training step")
    window: int = Field(
        16,
        ge=1,
        description=(
            "number of most recent rollouts from which a problem's pass rate is estimated; all rollouts of the "
            "problem's latest training step are always used"
        ),
    )
    known: int = Field(
        8,
        ge=1,
        description=(
            "number of rollouts that a problem needs before its pass rate counts as known; until then it gets n "
            "rollouts"
        ),
    )
    chance: float = Field(
        0.9,
        gt=0,
        lt=1,
        description=(
            "probability that limits the rollouts for sometimes solved problems: in total, about as many rollouts as "
            "would give each of their groups both successes and failures with this probability; the rest goes to "
            "unsolved problems"
        ),
    )

    _seen: dict[str, str] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _known_are_kept(self) -> Knapsack:
        if self.known > self.window:
            raise ValueError(f"known is {self.known}, but only the last {self.window} rollouts are kept (window)")
        return self

    def counts(self, problems: Sequence[Problem], ties: Sequence[int]) -> list[int]:
        rates = [self.rate(problem.id) for problem in problems]
        self._numbers = {
            "known": float(sum(p is not None for p in rates)),
            "mixed": float(sum(_mixed(p) for p in rates)),
            "unsolved": float(sum(p == 0 for p in rates)),
        }
        return self.shares(rates, ties)

    def rate(self, problem_id: str) -> float | None:
        """Return the estimated pass rate of a problem, or None while the pass rate is unknown."""
        seen = self._seen.get(problem_id, "")
        return seen.count("1") / len(seen) if len(seen) >= self.known else None

    def shares(self, rates: Sequence[float | None], ties: Sequence[int]) -> list[int]:
        """Return the number of rollouts for each problem. The numbers sum to ``n`` times the number of problems."""
        total = self.n * len(rates)
        mixed = {i: p for i, p in enumerate(rates) if p is not None and 0 < p < 1}
        unsolved = [i for i, p in enumerate(rates) if p == 0]
        solved = [i for i, p in enumerate(rates) if p == 1]

        def gain_of(i: int, n: int) -> float:
            return value(n + 1, mixed[i]) - value(n, mixed[i])

        def evenly(i: int, n: int) -> float:
            return -n

        counts = [self.n if p is None else self.min_n for p in rates]
        first = min(total - sum(counts), sum(enough(p, self.chance, self.max_n) for p in mixed.values()))
        counts = raised(counts, first, self.max_n, gain_of, ties, mixed)
        for among, gain in ((unsolved, evenly), (solved, evenly), (mixed, gain_of), (range(len(rates)), evenly)):
            counts = raised(counts, total - sum(counts), self.max_n, gain, ties, among)
        return counts

    def predicted(self, problem: Problem) -> float | None:
        return self.rate(problem.id)

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        for group in groups:
            new = "".join("1" if r.success else "0" for r in first_pass(group))
            if new:
                both = self._seen.get(group.problem.id, "") + new
                remember(self._seen, group.problem.id, both[-max(self.window, len(new)) :])
        return self._numbers

    def state_dict(self) -> dict[str, Any]:
        """Return the last outcomes of each problem (1 for a success), oldest problem first."""
        return {"seen": [[key, seen] for key, seen in self._seen.items()]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._seen = dict(state["seen"])


def _mixed(p: float | None) -> bool:
    return p is not None and 0 < p < 1
