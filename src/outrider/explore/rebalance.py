"""Difficulty-adaptive second pass (DARS): problems with a lower pass rate get more rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import Literal

from pydantic import Field, PrivateAttr

from outrider.errors import UserError
from outrider.explore.bounds import Bounds
from outrider.explore.outcome import first_pass
from outrider.explore.stage import Stage
from outrider.explore.surroundings import Surroundings
from outrider.explore.view import View
from outrider.record import Group, SampleRequest

Schedule = Literal["et", "hw"]


class Rebalance(Stage):
    r"""Samples more rollouts of each hard problem, until its sum of absolute advantages equals that of a problem with
    pass rate one half.

    The absolute advantages of ``N`` rollouts with accuracy ``a`` sum to ``N S(a)``. ``S(a)`` is ``2 a (1 - a)``, or ``2
    sqrt(a (1 - a))`` if advantages are divided by the group's standard deviation (``std``). A problem with ``a < 1/2``
    gets more rollouts to reach a target sum, up to ``n_max`` rollouts in total. The target is ``N S(1/2)`` for ``et``
    (equal treatment), and ``2 (1 - a) N S(1/2)`` for ``hw`` (hardness-weighted). The number of additional rollouts is

        extra = min(ceil((target - N S(a)) / S(a)), n_max - N)

    ``N`` and ``a`` count only rollouts that the verifier could score and that no stage has excluded. Branches and
    rollouts with hints or in-context examples are ignored. The cap also counts rollouts that the verifier could not
    score, since these rollouts cost the same. All counts are exact (integer arithmetic).

    Over training, the cap can change linearly from ``n_max`` to ``n_max_end``, rounded to the nearest integer:

        cap = floor(n_max + (n_max_end - n_max) progress + 1/2)

    If ``n_max_end`` equals ``N``, a run ends as plain GRPO. The run thus moves from optimising pass@k to optimising
    pass@1, as the paper's appendix G.2 proposes. The paper gives no formula. Our choice is a cap that is linear in
    ``progress``, the share of the run's budget that is spent.

    Degenerate cases: accuracy 0 counts as ``1/(2N)`` (as in the released code), so a problem whose only rollout failed
    has accuracy 1/2 and gets no further rollouts. Problems with ``a >= 1/2`` and groups without rollouts get no more
    rollouts. Groups may differ in size. If no problem needs more rollouts, the stage requests nothing. A problem's
    earlier and additional rollouts form one group. Use a loss without per-group normalisation, which would cancel the
    re-weighting.

    Differences: for ``hw``, the paper's Eq. 7 has the factor ``2 (1 - x)`` with ``x = 1 - a``, but Eq. 8 and the
    released code have ``2 x``. The released code computes ``a`` in float32, and can therefore sample one rollout too
    many. ``n_max`` is 32 in the paper, and 64 for ``hw`` in the released scripts.

    Raises:
        UserError: every group is larger than the smaller of ``n_max`` and ``n_max_end``.

    Source: Yang et al. 2025, "Depth-Breadth Synergy in RLVR" (DARS), Eqs. 3 to 8, appendix F.1 for ``std``.

    >>> [rollouts_wanted(8, successes, "et") - 8 for successes in range(9)]
    [27, 11, 3, 1, 0, 0, 0, 0, 0]
    """

    schedule: Schedule = Field(
        "hw",
        description=(
            "target for the sum of a problem's absolute advantages: the sum at pass rate 1/2 (et), or a target that "
            "rises with difficulty to at most twice that sum (hw)"
        ),
    )
    n_max: int = Field(
        32,
        ge=1,
        description=(
            "maximum number of rollouts per problem in a training step, counting those already sampled in this step"
        ),
    )
    n_max_end: int | None = Field(
        None,
        ge=1,
        description=(
            "maximum number of rollouts per problem at the end of training; the maximum changes linearly from `n_max` "
            "to this value; null: always `n_max`"
        ),
    )
    std: bool = Field(
        False,
        description=(
            "whether the recipe divides advantages by the group's standard deviation; this option must match the "
            "recipe, and does not itself change the advantages"
        ),
    )

    _numbers: dict[str, float] = PrivateAttr(default_factory=dict)

    def check(self, around: Surroundings) -> None:
        least = min(self.n_max, self.n_max if self.n_max_end is None else self.n_max_end)
        _, n = around.bounds.first
        if not around.before:
            raise ValueError("rebalance adds to a first pass: put uniform before it")
        if least < n:
            raise ValueError(f"rebalance.n_max is {least}, below the {n} rollouts of the first pass, which it includes")

    def bounds(self, before: Bounds, problems: int) -> Bounds:
        return before.more((max(self.n_max, self.n_max_end or 0) - before.first[0]) * problems)

    def plan(self, view: View) -> list[SampleRequest]:
        if view.round:
            return []
        self._refuse_too_small(view.groups)
        cap = self.cap(view.progress)
        requests, capped = [], 0
        for group in view.groups:
            counted = [r for r in first_pass(group) if not r.unused]
            wanted = rollouts_wanted(len(counted), sum(r.success for r in counted), self.schedule, self.std)
            extra = max(0, min(wanted - len(counted), cap - _first_size(group)))
            capped += wanted - len(counted) > extra
            if extra:
                requests.append(SampleRequest(group.problem, n=extra))
        self._numbers = {
            "n_max": float(cap),
            "problems": float(len(requests)),
            "rollouts": float(sum(r.n for r in requests)),
            "capped": float(capped),
        }
        return requests

    def cap(self, progress: float) -> int:
        """Return the maximum number of rollouts per problem when the fraction ``progress`` of the budget has been
        spent.
        """
        end = self.n_max if self.n_max_end is None else self.n_max_end
        return int(self.n_max + (end - self.n_max) * progress + 0.5)

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        return self._numbers

    def _refuse_too_small(self, groups: Sequence[Group]) -> None:
        least = min(self.cap(0.0), self.cap(1.0))
        sizes = [_first_size(group) for group in groups if group.size]
        if sizes and min(sizes) > least:
            key = "n_max" if self.n_max == least else "n_max_end"
            raise UserError(
                f"rebalance.{key} is {least}, but every problem already has at least {min(sizes)} rollouts before "
                f"rebalance, which count: set it to {min(sizes)} or more"
            )


def rollouts_wanted(n: int, successes: int, schedule: Schedule, std: bool = False) -> int:
    """Return how many rollouts a problem with ``successes`` among its first ``n`` rollouts should have in total; ``n``
    if no more rollouts are needed.

    The accuracy is ``a = h / 2n``, with ``h = 2 * successes``, or ``h = 1`` without a success. The result is the
    smallest ``t`` for which ``t S(a)`` reaches the target sum (:class:`Rebalance`):

        et:  t >= n^3 / (h (2n - h)),    with std  t^2 >= n^4 / (h (2n - h))
        hw:  t >= n^2 / h,               with std  t^2 >= n^2 (2n - h) / h
    """
    if 2 * successes >= n:
        return n
    half = max(2 * successes, 1)
    rest = 2 * n - half
    if schedule == "et":
        return _root_up(_up(n**4, half * rest)) if std else _up(n**3, half * rest)
    return _root_up(_up(n**2 * rest, half)) if std else _up(n**2, half)


def _up(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)


def _root_up(square: int) -> int:
    """Return the smallest integer whose square is at least ``square``, which must be positive."""
    return isqrt(square - 1) + 1


def _first_size(group: Group) -> int:
    """Return the number of rollouts of earlier stages, including rollouts that the verifier could not score, but
    without branches, greedy rollouts, and rollouts with hints or in-context examples."""
    plain = [r for r in group.roots if r.stream == "main" and r.context.kind == "plain"]
    return sum(r.context.trained != "excluded" for r in plain)  # without the greedy rollout
