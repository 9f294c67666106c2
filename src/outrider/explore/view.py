"""The argument of a stage's ``plan``: the groups sampled so far in the step, with access to the policy and to new
problems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from outrider.record import Group, Ids, Problem, Rollout


class Engine(Protocol):
    """The parts of the policy and its tokenizer that stages may use. A stage calls only the methods that it needs."""

    def encode(self, problem: Problem) -> Ids:
        """Return the token ids of a problem's prompt. To encode a changed prompt, such as one with examples, pass
        ``replace(problem, prompt=changed)``.
        """
        ...

    def token_texts(self, ids: Ids) -> list[str]:
        """Return the text of each token."""
        ...

    def attention(self, rollout: Rollout, starts: Sequence[int]) -> NDArray[np.float64]:
        """Return the mean attention between every two steps of a response, as ``[layers * heads, steps, steps]``. Steps
        are parts of the response, such as reasoning steps. Entry ``[h, j, i]`` is head h's mean attention weight from a
        token of step j to a token of step i.

        ``starts`` has the position of each step's first response token, in ascending order and beginning with 0. The
        method runs one forward pass of the policy.
        """
        ...

    def branching(self, rollouts: Sequence[Rollout], mass: float) -> list[NDArray[np.int32]]:
        """Return the branching factor at each sampled token of each rollout.

        The branching factor is the smallest number of tokens with a total probability of at least ``mass``, at
        temperature 1. The method runs one forward pass of the policy.
        """
        ...


@dataclass(frozen=True, slots=True)
class View:
    """The argument of :meth:`outrider.explore.Stage.plan`.

    Attributes:
        groups: all groups of the step so far, oldest first, including groups of problems that stages added with
            ``take``.
        step: the step, from 1.
        round: number of earlier calls of this stage's ``plan`` in this step.
        progress: share of the run's budget spent before the step, in [0, 1).
        take: ``take(n)`` returns the next ``n`` training problems without a group in the step, or fewer if no other
            problems are left.
        engine: see :class:`Engine`.
        seed: the run's master seed, from which a stage derives its own seeds: ``identity_seed(view.seed, "name",
            view.step, …)``.
        prompt_limit: maximum number of tokens in a prompt; with a longer prompt, the longest response would not fit
            into the model's context.
    """

    groups: Sequence[Group]
    step: int
    round: int
    progress: float
    take: Callable[[int], list[Problem]]
    engine: Engine
    seed: int
    prompt_limit: int
