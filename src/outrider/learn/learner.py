"""The contract of a learner, which trains the policy, and the update loop that all learners share."""

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
"""Writes the policy into a new folder, with notes on its origin."""


class Loss(Protocol):
    """An objective from the learner's view: its methods for a step, an optimizer batch, and a micro-batch."""

    @property
    def needs(self) -> LossNeeds: ...

    def begin(self, rows: Sequence[WeightedRow], logprobs: Logprobs) -> tuple[Sequence[WeightedRow], dict[str, float]]:
        """The rows of a step for training, and metrics of the step."""
        ...

    def prepare(self, rows: Sequence[WeightedRow]) -> list[WeightedRow]:
        """Decisions that need the whole optimizer batch, the same on every rank."""
        ...

    def __call__(
        self,
        tokens: TokenBatch,
        logprobs_N: Tensor,
        entropies_N: Tensor | None,
        ref_logprobs_N: Tensor | None,
        top_NK: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of a micro-batch, and diagnostics as sums over tokens; ``entropies_N`` may be None.

        ``top_NK``: log-probabilities of the likeliest tokens, for losses that read them.
        """
        ...

    def state_dict(self) -> dict[str, float]: ...

    def load_state_dict(self, state: dict[str, float]) -> None: ...


class Updated(NamedTuple):
    """The results of a step's updates.

    Attributes:
        metrics: see :func:`updates`.
        lost_groups: groups for which no optimizer batch was finite.
        notices: messages for the user.
        logprobs: for each row of the step the log-probability of each own token in the forward pass of its last update,
            float32, under the weights before that update; None for a row without a pass. Empty if the engine does not
            return them.
    """

    metrics: dict[str, float]
    lost_groups: frozenset[str]
    notices: Sequence[str] = ()
    logprobs: Sequence[NDArray[np.float32] | None] = ()


class Learner(Protocol):
    """Trains the policy. All ranks call each method together, unless stated otherwise.

    Attributes:
        whole: whether one rank can save and export alone.
    """

    @property
    def whole(self) -> bool: ...

    def update(self, rows: Sequence[WeightedRow], progress: float = 0.0) -> Updated:
        """Train on the rows of one step; ``progress`` in [0, 1] sets the learning-rate schedule.

        Raises:
            ValueError: log-probabilities have several modes, or a truncated one.
        """
        ...

    def logprobs(self, rows: Sequence[WeightedRow]) -> list[NDArray[np.floating]]:
        """Log-probability of each own token under the current weights, in the mode of the rows, on every rank."""
        ...

    def export(self, folder: Path, adapter: bool = False) -> None:
        """Write the current weights, or only the adapter, into a folder for a sampler."""
        ...

    def writer(self, policy: Policy) -> PolicyWriter | None:
        """The writer of the trained policy for a run folder; None on all ranks but one."""
        ...

    def save(self, folder: Path) -> None:
        """Write a checkpoint into a folder; with ``whole`` one rank may call alone.

        Raises:
            UserError: the disk refuses.
        """
        ...

    def load(self, folder: Path) -> None:
        """Load a checkpoint of :meth:`save`.

        Raises:
            UserError: the checkpoint is from another model.
        """
        ...


@runtime_checkable
class EntropyLearner(Protocol):
    """A learner with access to the full distribution of every token."""

    def entropies(self, rows: Sequence[WeightedRow]) -> list[NDArray[np.floating]]:
        """The entropy of the distribution at each own token, like ``logprobs``; nats."""
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
    """Run the updates of one step: epochs of optimizer batches, each of whole groups.

    Metrics: means over trained tokens; their number ``tokens`` (counted once per use); the mean ``loss`` of the
    updates; the last gradient norm and learning rate; counts ``updates``, ``skipped_no_signal``, ``skipped_nonfinite``
    and ``rows_skipped``; with a service ``trained_tokens``, including prompts; and the metrics of the objective.

    Args:
        logprobs: computes the learner's log-probabilities on demand.
        optimizer_step: trains on one batch; returns sums over its tokens, their number as ``tokens``, and counts.

    Raises:
        ValueError: log-probabilities have several modes, or a truncated one.
    """
    refuse_modes(rows)
    rows = [replace(row, place=place) for place, row in enumerate(rows)]
    totals: dict[str, float] = {}
    rows, gauges = loss.begin(rows, logprobs)
    # a group that was trained in any epoch is not lost
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
    """Raise ValueError if log-probabilities have several modes, or a truncated one, so that ratios would be wrong."""
    modes = {row.mode for row in rows}
    if len(modes) > 1 or any(mode.top_p != 1.0 or mode.top_k != 0 for mode in modes):
        raise ValueError(f"rows of different or truncated log-probability modes in one batch: {sorted(modes)}")
