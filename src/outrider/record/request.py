"""A request for rollouts of one problem. A recipe's exploration stages, which decide what to sample, make requests, and
the sampler answers them.
"""

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
        parent: id of the earlier rollout, from this step or an earlier step.
        ids: the response tokens that the branch keeps, including the parent's own prefix.
        observed: start and end of each observation in ``ids``. The first observation comes before the first turn. Every
            turn is followed by an observation, which may be empty. None: the explorer sets ``observed``.
    """

    parent: str
    ids: Ids
    observed: tuple[tuple[int, int], ...] | None = None

    @property
    def branch_at(self) -> int:
        """Number of response tokens before the branch."""
        return len(self.ids)


@dataclass(frozen=True, slots=True, eq=False)
class SampleRequest:
    """A request for ``n`` rollouts of one problem with one prompt.

    An exploration stage of the recipe sets the fields from ``problem`` to ``replay``. The training loop then sets the
    fields from ``stage`` to ``seed``.

    Attributes:
        problem: the problem to solve.
        n: number of rollouts, at least 1.
        prefix: response prefix to continue; if None, the rollouts start after the prompt.
        context: whether ``prompt_ids`` is the plain prompt, or a prompt with worked examples or a hint.
        stream: the loss stream (a set of rollouts with its own loss weight), such as ``"main"`` or ``"branch"``.
        prompt_ids: token ids of the prompt; None: the problem's plain prompt.
        params: sampling options; if None, the run's sampling options are used.
        replay: rollout of an earlier step that joins the group instead of a new rollout; ``n`` must then be 1. None:
            sample rollouts.
        stage: the name of the exploration stage that made the request.
        group_id: the id of the group that the rollouts join.
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
        """Return the id of the ``index``-th rollout (:attr:`outrider.record.Rollout.id`)."""
        return f"{self.group_id}/{self.first_member + index}"

    def rollout_seed(self, index: int) -> int:
        """Return the seed of the ``index``-th rollout. The seed does not depend on when, or in which batch, the rollout
        is sampled."""
        parent, at = ("", 0) if self.prefix is None else (self.prefix.parent, self.prefix.branch_at)
        return identity_seed(self.seed, self.group_id, self.first_member + index, parent, at)

    def replayed(self) -> Rollout:
        """Return a copy of the replayed rollout as a member of this step's group.

        Raises:
            ValueError: the request has no rollout to replay.
        """
        if self.replay is None:
            raise ValueError(f"request for group {self.group_id!r} replays no rollout")
        return self.replay.again(self.group_id, self.first_member, self.stage, self.stream)
