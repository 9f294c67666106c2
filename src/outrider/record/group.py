"""A group contains all rollouts of one problem in one step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from outrider.record.problem import Problem
from outrider.record.rollout import Rollout


def group_id(step: int, problem: Problem, purpose: str = "train") -> str:
    """Return the id of a group. A problem that is drawn again in a later step gets a new group."""
    return f"{purpose}:{step}:{problem.id}"


@dataclass(frozen=True, slots=True)
class Group:
    """All rollouts of one problem in one step, ordered by member index (the rollout's number within the group).

    Before sampling, a group may be empty. A rollout is a success if the verifier accepts it, whatever its reward.
    """

    problem: Problem
    id: str
    rollouts: tuple[Rollout, ...] = ()

    @property
    def size(self) -> int:
        return len(self.rollouts)

    @property
    def successes(self) -> int:
        return sum(r.success for r in self.rollouts)

    @property
    def mixed(self) -> bool:
        """Whether at least one rollout of the group is a success and at least one is not."""
        return 0 < self.successes < self.size

    @property
    def dropped(self) -> bool:
        """Whether all rollouts of the group are excluded from training. False for empty groups."""
        return bool(self.rollouts) and all(r.unused for r in self.rollouts)

    @property
    def generated_tokens(self) -> int:
        """Number of tokens that the policy sampled in this step, excluding an environment's replies and rollouts from
        earlier steps."""
        return sum(r.trainable_tokens for r in self.drawn.rollouts)

    @property
    def drawn(self) -> Group:
        """The group without replayed rollouts, which were sampled in earlier steps."""
        if not any(r.replayed for r in self.rollouts):
            return self
        return replace(self, rollouts=tuple(r for r in self.rollouts if not r.replayed))

    @property
    def roots(self) -> tuple[Rollout, ...]:
        return tuple(r for r in self.rollouts if r.parent is None)

    def children(self, parent: Rollout) -> tuple[Rollout, ...]:
        return tuple(r for r in self.rollouts if r.parent == parent.id)

    def predicted_as(self, rate: float | None) -> Group:
        """Return the group with the predicted pass rate ``rate`` stored in every rollout, except rollouts from earlier
        steps."""
        if rate is None:
            return self
        return replace(self, rollouts=tuple(r if r.replayed else r.predicted_as(rate) for r in self.rollouts))

    def excluded(self, reason: str) -> Group:
        """Return the group with all rollouts excluded from training for ``reason``. Rollouts that were already excluded
        keep their earlier reason."""
        return replace(self, rollouts=tuple(r.excluded(reason) for r in self.rollouts))

    def joined(self, rollouts: Iterable[Rollout]) -> Group:
        """Return the group with additional rollouts, ordered by member index.

        Raises:
            ValueError: two rollouts have the same member index.
        """
        # sort by index, since rollouts arrive from several processes in any order
        members = sorted((*self.rollouts, *rollouts), key=lambda r: r.member)
        if len({r.member for r in members}) < len(members):
            raise ValueError(f"group {self.id} has two rollouts with one member index")
        return replace(self, rollouts=tuple(members))
