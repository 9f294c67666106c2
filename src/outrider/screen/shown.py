"""Selects the rollouts of a step for `outrider show`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from outrider.errors import UserError, nearest
from outrider.record import Rollout


class Shown(NamedTuple):
    """A selection of the rollouts of a step.

    Attributes:
        n: maximum number of rollouts. If more than ``n`` rollouts match, evenly spaced ones are selected.
        problem: id of a problem, or the beginning of one or more ids. None selects all problems.
        verdict: outcome of the verdict, such as ``"correct"``. The string ``"none"`` selects rollouts without a
            verdict. The value None selects all rollouts.
        stage: name of an entry of the recipe's list ``explore``, such as ``"0-uniform"``. Only rollouts that this entry
            requested are selected. None selects the rollouts of all entries.
        longest: whether to select the ``n`` longest rollouts, in order of decreasing length, instead of evenly spaced
            rollouts.
        full: whether to show whole texts.
    """

    n: int
    problem: str | None = None
    verdict: str | None = None
    stage: str | None = None
    longest: bool = False
    full: bool = False

    def of(self, rollouts: Sequence[Rollout]) -> list[Rollout]:
        """Return the selected rollouts.

        Raises:
            UserError: no rollout has the requested problem, verdict or stage. The error message suggests a similar
                value that exists.
        """
        chosen = self._of_problem(rollouts)
        if self.verdict is not None:
            chosen = _with("verdict", self.verdict, [(_outcome(rollout), rollout) for rollout in chosen])
        if self.stage is not None:
            chosen = _with("stage", self.stage, [(rollout.stage, rollout) for rollout in chosen])
        return sorted(chosen, key=lambda r: -len(r.token_ids))[: self.n] if self.longest else chosen

    def _of_problem(self, rollouts: Sequence[Rollout]) -> list[Rollout]:
        if self.problem is None:
            return list(rollouts)
        begins = [rollout for rollout in rollouts if rollout.problem_id.startswith(self.problem)]
        if not begins:
            known = sorted({rollout.problem_id for rollout in rollouts})
            raise UserError(f"no rollout of problem {self.problem!r}; {nearest(self.problem, known)}")
        return [rollout for rollout in begins if rollout.problem_id == self.problem] or begins


def _outcome(rollout: Rollout) -> str:
    return "none" if rollout.verdict is None else rollout.verdict.outcome.value


def _with(name: str, value: str, valued: Sequence[tuple[str, Rollout]]) -> list[Rollout]:
    """Return the rollouts that are paired with ``value`` in the list ``valued``."""
    kept = [rollout for own, rollout in valued if own == value]
    if not kept:
        known = sorted({own for own, _ in valued})
        raise UserError(f"no rollout with the {name} {value!r} ({nearest(value, known)})")
    return kept
