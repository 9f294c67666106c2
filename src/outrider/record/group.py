"""A group contains all rollouts of one problem in one step. The rollouts form one or more trees of branches."""

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
    """Rollouts of one problem, ordered by member index (the rollout's number within the group).

    A group may be empty before sampling. Successes are counted by the verdict, never by the reward.
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
        """Whether the group has at least one success and at least one rollout without success."""
        return 0 < self.successes < self.size

    @property
    def dropped(self) -> bool:
        """Whether a stage has dropped the group, so that the group has rollouts, but none of them is trained on."""
        return bool(self.rollouts) and all(r.unused for r in self.rollouts)

    @property
    def generated_tokens(self) -> int:
        """Number of tokens that the policy sampled for the group in this step, without observed and replayed tokens."""
        return sum(r.trainable_tokens for r in self.drawn.rollouts)

    @property
    def drawn(self) -> Group:
        """The group without replayed rollouts, which are rollouts that earlier steps sampled."""
        if not any(r.replayed for r in self.rollouts):
            return self
        return replace(self, rollouts=tuple(r for r in self.rollouts if not r.replayed))

    @property
    def roots(self) -> tuple[Rollout, ...]:
        return tuple(r for r in self.rollouts if r.parent is None)

    def children(self, parent: Rollout) -> tuple[Rollout, ...]:
        return tuple(r for r in self.rollouts if r.parent == parent.id)

    def predicted_as(self, rate: float | None) -> Group:
        """Return the group with ``rate``, the predicted pass rate, stored in every rollout sampled in this step."""
        if rate is None:
            return self
        return replace(self, rollouts=tuple(r if r.replayed else r.predicted_as(rate) for r in self.rollouts))

    def excluded(self, reason: str) -> Group:
        """Return the group with every rollout excluded from training for ``reason``. A rollout with an earlier reason
        keeps it."""
        return replace(self, rollouts=tuple(r.excluded(reason) for r in self.rollouts))

    def joined(self, rollouts: Iterable[Rollout]) -> Group:
        """Return the group with additional rollouts, ordered by member index.

        Raises:
            ValueError: two rollouts have the same member index.
        """
        # by index, since rollouts come back from several processes in any order
        members = sorted((*self.rollouts, *rollouts), key=lambda r: r.member)
        if len({r.member for r in members}) < len(members):
            raise ValueError(f"group {self.id} has two rollouts with one member index")
        return replace(self, rollouts=tuple(members))
