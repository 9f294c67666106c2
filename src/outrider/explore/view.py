"""What a stage sees when it plans: the step so far, and what it may ask of the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from outrider.record import Group, Ids, Problem, Rollout


class Engine(Protocol):
    """The policy and its tokenizer, as far as stages may use them. Stages ask for nothing that they do not need."""

    def encode(self, problem: Problem) -> Ids:
        """A problem's plain prompt as token ids; a seeded prompt is a problem with another ``prompt``."""
        ...

    def token_texts(self, ids: Ids) -> list[str]:
        """The text of each token on its own: where sentences and steps end."""
        ...

    def attention(self, rollout: Rollout, starts: Sequence[int]) -> NDArray[np.float64]:
        """Mean attention between the steps of a response, ``[layers * heads, steps, steps]``: row queries column.

        ``starts``: first response token of each step, ascending, the first 0. One forward pass of the policy.
        """
        ...

    def branching(self, rollouts: Sequence[Rollout], mass: float) -> list[NDArray[np.int32]]:
        """At each sampled token of each rollout, the fewest tokens that hold a probability of at least ``mass``, at
        temperature 1. A forward pass of the policy."""
        ...


@dataclass(frozen=True, slots=True)
class View:
    """The argument of :meth:`outrider.explore.Stage.plan`.

    Attributes:
        groups: all groups of the step so far, the new problems' too, in the order in which they joined.
        step: counts from 1.
        round: how often this stage has been asked before in this step.
        progress: share of the run's budget that was spent before the step, in [0, 1).
        take: ``take(n)`` gives the next ``n`` training problems that are in no group of the step, fewer where
            there are no others.
        engine: see :class:`Engine`.
        seed: the run's master seed; a stage draws with ``identity_seed(view.seed, "name", view.step, …)``.
        prompt_limit: most tokens of a prompt that leave room for the longest response in the model's context.
    """

    groups: Sequence[Group]
    step: int
    round: int
    progress: float
    take: Callable[[int], list[Problem]]
    engine: Engine
    seed: int
    prompt_limit: int
