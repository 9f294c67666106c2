"""A request, by which a stage of the explorer asks the sampler for rollouts of one problem."""

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
        ids: the kept response tokens, which include the parent's own prefix.
        observed: begin and end in ``ids`` of each observation: first the observation before the first turn, then the
            reply to each turn, even if the reply is empty. None: the explorer sets ``observed``.
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
    """A request for ``n`` rollouts of one problem with one prompt.

    A stage sets the fields up to ``replay``. The explorer sets the fields from ``stage`` on before the sampler gets the
    request.

    Attributes:
        problem: the problem to solve.
        n: number of rollouts, >= 1.
        prefix: response prefix to continue; None: start after the prompt.
        context: description of the additional text in ``prompt_ids``, such as examples or a hint.
        stream: the loss stream (a set of rollouts with its own loss weight), such as ``"main"`` or ``"branch"``.
        prompt_ids: token ids of the prompt; None: the explorer encodes the plain prompt.
        params: sampling options; None: the sampling options of the run.
        replay: rollout of an earlier step that joins the group, in which case nothing is sampled and ``n`` is 1; None:
            sample rollouts.
        stage: the name of the stage that made the request.
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
        """Return the id of the ``index``-th rollout, :attr:`outrider.record.Rollout.id`."""
        return f"{self.group_id}/{self.first_member + index}"

    def rollout_seed(self, index: int) -> int:
        """Return the seed of the ``index``-th rollout, which does not depend on the time or batch of sampling."""
        parent, at = ("", 0) if self.prefix is None else (self.prefix.parent, self.prefix.branch_at)
        return identity_seed(self.seed, self.group_id, self.first_member + index, parent, at)

    def replayed(self) -> Rollout:
        """Return the rollout of an earlier step as a rollout of this step's group.

        Raises:
            ValueError: the request has no rollout to replay.
        """
        if self.replay is None:
            raise ValueError(f"request for group {self.group_id!r} replays no rollout")
        return self.replay.again(self.group_id, self.first_member, self.stage, self.stream)
