"""Which rollouts of a step `outrider show` prints, and how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from outrider.errors import UserError, nearest
from outrider.record import Rollout


class Shown(NamedTuple):
    """What is chosen of the rollouts of a step.

    Attributes:
        n: how many at most, spread evenly over those chosen.
        problem: only those of a problem whose id this is or begins with; None: all.
        verdict: only those with this outcome; ``none``: without a verdict.
        stage: only those that this stage asked for.
        longest: the longest ones, longest first, in place of some of all.
        full: whole texts.
    """

    n: int
    problem: str | None = None
    verdict: str | None = None
    stage: str | None = None
    longest: bool = False
    full: bool = False

    def of(self, rollouts: Sequence[Rollout]) -> list[Rollout]:
        """Those that are chosen.

        Raises:
            UserError: none is: the value that none has, and the nearest one that some have.
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
    """Those with the value."""
    kept = [rollout for own, rollout in valued if own == value]
    if not kept:
        known = sorted({own for own, _ in valued})
        raise UserError(f"no rollout with the {name} {value!r} ({nearest(value, known)})")
    return kept
