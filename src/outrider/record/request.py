"""A request: what a stage of the explorer wants to have sampled."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.record.identity import identity_seed
from outrider.record.problem import Problem
from outrider.record.rollout import Rollout
from outrider.record.sampling import PLAIN, Context, Ids, SamplingParams


@dataclass(frozen=True, slots=True, eq=False)
class Prefix:
    """The part of an earlier rollout's response that a branch continues.

    Attributes:
        parent: id of that rollout, of this step or of an earlier one.
        ids: the kept response tokens, from the first token of the *path* (the parent's own prefix included).
        observed: begin and end in ``ids`` of what an environment said, in order: before the first turn, and to each
            turn, also where it said nothing. None: the explorer knows.
    """

    parent: str
    ids: Ids
    observed: tuple[tuple[int, int], ...] | None = None

    @property
    def branch_at(self) -> int:
        """Position in the response at which the branch starts."""
        return len(self.ids)


@dataclass(frozen=True, slots=True, eq=False)
class SampleRequest:
    """``n`` rollouts of one problem from one context.

    A stage fills the first block; the explorer completes the second before the sampler sees it.

    Attributes:
        problem: what to solve.
        n: how many rollouts, >= 1.
        prefix: continue this instead of starting after the prompt; None starts afresh.
        context: what ``prompt_ids`` hold beside the problem.
        stream: the loss stream that the rollouts belong to (``"main"``, ``"branch"``, ...).
        prompt_ids: token ids of the context; None asks the explorer for the plain prompt.
        params: how to draw; None takes the run's own.
        replay: nothing is drawn, and this rollout of an earlier step joins the group; ``n`` is 1.
        stage: the stage that made the request.
        group_id: the group that the rollouts join.
        first_member: index of the first of the ``n`` rollouts in its group.
        seed: the run's master seed.
    """

    problem: Problem
    n: int = 1
    prefix: Prefix | None = None
    context: Context = PLAIN
    stream: str = "main"
    prompt_ids: Ids | None = None
    params: SamplingParams | None = None
    replay: Rollout | None = None

    stage: str = ""
    group_id: str = ""
    first_member: int = 0
    seed: int = 0

    def rollout_id(self, index: int) -> str:
        """The id of the ``index``-th rollout, :attr:`outrider.record.Rollout.id`."""
        return f"{self.group_id}/{self.first_member + index}"

    def rollout_seed(self, index: int) -> int:
        """The seed of the ``index``-th rollout: a function of its identity, not of when or with whom it is drawn."""
        parent, at = ("", 0) if self.prefix is None else (self.prefix.parent, self.prefix.branch_at)
        return identity_seed(self.seed, self.group_id, self.first_member + index, parent, at)

    def replayed(self) -> Rollout:
        """The rollout of an earlier step as it joins the group of this one.

        Raises:
            ValueError: this request draws, and replays none.
        """
        if self.replay is None:
            raise ValueError(f"request for group {self.group_id!r} replays no rollout")
        return self.replay.again(self.group_id, self.first_member, self.stage, self.stream)
