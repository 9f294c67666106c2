"""What trains the policy: the contract of a learner, and what every learner does with the rows of a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from outrider.learn.batching import cut_by_group
from outrider.learn.options import LearnOptions
from outrider.model.load import Policy
from outrider.objective.loss_needs import LossNeeds
from outrider.objective.tokens import TokenBatch
from outrider.record.row import Logprobs, WeightedRow

PolicyWriter = Callable[[Path, dict[str, Any]], None]
"""Writes the policy into a new folder, with notes of where it comes from."""


class Loss(Protocol):
    """An objective as the learner sees it: what it does to a step, to an optimizer batch, and to a micro-batch."""

    @property
    def needs(self) -> LossNeeds: ...

    def begin(self, rows: Sequence[WeightedRow], logprobs: Logprobs) -> tuple[Sequence[WeightedRow], dict[str, float]]:
        """The rows of a step as they are to be trained on, and gauges of the step."""
        ...

    def prepare(self, rows: Sequence[WeightedRow]) -> list[WeightedRow]:
        """What is decided over a whole optimizer batch, the same on every rank."""
        ...

    def __call__(
        self,
        tokens: TokenBatch,
        logprobs_N: Tensor,
        entropies_N: Tensor | None,
        ref_logprobs_N: Tensor | None,
        top_NK: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of a micro-batch, and diagnostics as sums over tokens; without entropies where there are none.

        ``top_NK``: log-probabilities of the likeliest tokens, for a loss that reads some.
        """
        ...

    def state_dict(self) -> dict[str, float]: ...

    def load_state_dict(self, state: dict[str, float]) -> None: ...


class Updated(NamedTuple):
    """What a step's updates were like.

    Attributes:
        metrics: see :func:`updates`.
        lost_groups: the groups whose every optimizer batch was not finite.
        notices: sentences to say.
        logprobs: for each row of the step the log-probability of each own token in the forward pass of its last update,
            float32, under the weights before that update; None for a row without a pass. Empty where the engine does
            not tell.
    """

    metrics: dict[str, float]
    lost_groups: frozenset[str]
    notices: Sequence[str] = ()
    logprobs: Sequence[NDArray[np.float32] | None] = ()


class Learner(Protocol):
    """Trains the policy. All ranks call each method together, unless it is said otherwise.

    Attributes:
        whole: whether one rank can save and export alone.
    """

    @property
    def whole(self) -> bool: ...

    def update(self, rows: Sequence[WeightedRow], progress: float = 0.0) -> Updated:
        """Train on the rows of one step; ``progress`` in [0, 1] places it in the learning-rate schedule.

        Raises:
            ValueError: log-probabilities of several modes, or of a truncated one.
        """
        ...

    def logprobs(self, rows: Sequence[WeightedRow]) -> list[NDArray[np.floating]]:
        """Log-probability of each own token under the current weights, in the mode of the rows, on every rank."""
        ...

    def export(self, folder: Path, adapter: bool = False) -> None:
        """Write the present weights into a folder for a sampler, or the adapter alone."""
        ...

    def writer(self, policy: Policy) -> PolicyWriter | None:
        """What writes the trained policy, for a run's folder; None on all ranks but one."""
        ...

    def save(self, folder: Path) -> None:
        """Write what training goes on from into a folder; ``whole``: one rank alone may call.

        Raises:
            UserError: the disk refuses.
        """
        ...

    def load(self, folder: Path) -> None:
        """Go on from what :meth:`save` wrote.

        Raises:
            UserError: it is of another model.
        """
        ...


@runtime_checkable
class EntropyLearner(Protocol):
    """A learner that has the whole distribution of every token."""

    def entropies(self, rows: Sequence[WeightedRow]) -> list[NDArray[np.floating]]:
        """The entropy of the distribution that each own token was drawn from, as ``logprobs``; nats."""
        ...


_COUNTS = {"rows_skipped", "skipped_no_signal", "skipped_nonfinite", "trained_tokens", "updates"}
_LAST = {"grad_norm", "learning_rate"}


def updates(
    rows: Sequence[WeightedRow],
    options: LearnOptions,
    loss: Loss,
    logprobs: Logprobs,
    optimizer_step: Callable[[Sequence[WeightedRow], float], dict[str, float]],
    progress: float,
) -> Updated:
    """The updates of one step: epochs of optimizer batches, each of whole groups.

    Its metrics are means over trained tokens, their number as ``tokens`` (each as often as it was trained on), the mean
    ``loss`` of the updates, the last gradient norm and learning rate, counts: ``updates``, ``skipped_no_signal``,
    ``skipped_nonfinite``, ``rows_skipped``, with a service ``trained_tokens``, those of the rows with their prompts,
    and the gauges of the objective.

    Args:
        logprobs: by the learner, on demand.
        optimizer_step: on one batch; returns sums over its tokens, their number as ``tokens``, and counts.

    Raises:
        ValueError: log-probabilities of several modes, or of a truncated one.
    """
    refuse_modes(rows)
    rows = [replace(row, place=place) for place, row in enumerate(rows)]
    totals: dict[str, float] = {}
    rows, gauges = loss.begin(rows, logprobs)
    # a group that was trained in one epoch and skipped in another is not lost
    lost, trained = set[str](), set[str]()
    for _ in range(options.epochs):
        for batch in cut_by_group(rows, options.minibatches):
            result = optimizer_step(batch, progress)
            (lost if result.get("skipped_nonfinite") else trained).update(row.group for row in batch)
            for name, value in result.items():
                totals[name] = value if name in _LAST else totals.get(name, 0.0) + value
    tokens = totals.pop("tokens", 0.0)
    per = {"loss": max(totals.get("updates", 0.0), 1.0)} | dict.fromkeys(_COUNTS | _LAST, 1.0)
    means = {name: value / per.get(name, max(tokens, 1.0)) for name, value in totals.items()}
    means |= {"tokens": tokens} if tokens else {}
    return Updated(means | gauges, frozenset(lost - trained))


def refuse_modes(rows: Sequence[WeightedRow]) -> None:
    """Raise ValueError where log-probabilities of several modes, or of a truncated one, would meet in a ratio."""
    modes = {row.mode for row in rows}
    if len(modes) > 1 or any(mode.top_p != 1.0 or mode.top_k != 0 for mode in modes):
        raise ValueError(f"rows of different or truncated log-probability modes in one batch: {sorted(modes)}")
