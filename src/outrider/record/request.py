"""A request: what a stage of the explorer wants to have sampled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrider.record.identity import identity_seed
from outrider.record.problem import Problem

if TYPE_CHECKING:
    from outrider.record.rollout import Rollout

Ids = NDArray[np.int32]


class Mode(NamedTuple):
    """The distribution that a log-probability belongs to.

    Two log-probabilities may be compared (a ratio, a KL) only if their modes are equal. ``RAW`` is the model's own
    softmax; ``temperature`` divides the logits; ``top_p`` and ``top_k`` (0: off) renormalise over the kept tokens.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0


RAW = Mode()


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How tokens are drawn.

    Attributes:
        temperature: 0 means greedy.
        top_p, top_k: truncation of the sampling distribution; 1.0 and 0 are off.
        max_tokens: the most response tokens, end-of-sequence token included; a branch's prefix counts, so that
            all paths of a group share one limit.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 128

    @property
    def logprob_mode(self) -> Mode:
        """The mode of the reported log-probabilities: the temperature is applied, truncation is not.

        Without truncation this is the distribution that was sampled from. With it, the learner can reproduce the
        number, which it could not for a renormalised one. Greedy decoding reports the raw distribution.
        """
        return Mode(self.temperature) if self.temperature > 0 else RAW


@dataclass(frozen=True, slots=True)
class Context:
    """What stands before the response: the plain prompt, or one seeded with worked examples or a hint.

    Attributes:
        kind: ``"plain"`` or ``"seeded"``; ``"replayed"`` for the plain prompt of a rollout that an earlier step drew.
        exemplars: problem ids of the examples, in order; of a replayed rollout, the id that it had; empty for plain.
        trained: what the rollout is trained with: ``"as_generated"``, after the context it was sampled from;
            ``"original"``, after the problem's plain prompt; ``"excluded"``, not at all (it still counts in baselines).
    """

    kind: str = "plain"
    exemplars: tuple[str, ...] = ()
    trained: str = "as_generated"


PLAIN = Context()


@dataclass(frozen=True, slots=True, eq=False)
class Prefix:
    """The part of an earlier rollout's response that a branch continues.

    Attributes:
        parent: id of that rollout, of this step or of an earlier one.
        ids: the kept response tokens, from the first token of the *path* (the parent's own prefix included).
        observed: begin and end in ``ids`` of what a world said, in order: before the first turn, and to each turn, also
            where it said nothing. None: the explorer knows.
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
