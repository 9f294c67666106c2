"""The interface of a learner, which trains the policy, and the update loop that all learners share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
    """A loss function, with methods that the learner calls for each step, optimizer batch and micro-batch."""

    @property
    def needs(self) -> LossNeeds: ...

    def begin(
        self, rows: Sequence[WeightedRow], logprobs: Logprobs, one_update: bool = False
    ) -> tuple[Sequence[WeightedRow], dict[str, float]]:
        """Prepare the rows of a step, for example with off-policy corrections. Return the prepared rows, and metrics.

        ``one_update``: whether all rows are in one update, after which the learner calls :meth:`end`.
        """
        ...

    def end(self, rows: Sequence[WeightedRow], logprobs: Sequence[NDArray[np.floating] | None]) -> dict[str, float]:
        """Return the metrics of a step that has only one update, based on the log-probabilities from the update's
        forward pass.

        ``logprobs``: one entry per row, which is None if the row was in no forward pass.
        """
        ...

    def prepare(self, rows: Sequence[WeightedRow]) -> list[WeightedRow]:
        """Set the attributes of rows that depend on the whole optimizer batch, such as ``weight`` and ``trained``. A
        row's attributes are equal on every rank.
        """
        ...

    def __call__(
        self,
        tokens: TokenBatch,
        logprobs_N: Tensor,
        entropies_N: Tensor | None,
        ref_logprobs_N: Tensor | None,
        top_NK: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of a micro-batch, and its diagnostics summed over tokens. ``entropies_N`` may be None.

        ``top_NK``: log-probabilities of the most likely tokens, for losses that read them.
        """
        ...

    def state_dict(self) -> dict[str, float]: ...

    def load_state_dict(self, state: dict[str, float]) -> None: ...


class Updated(NamedTuple):
    """The results of a step's updates.

    Attributes:
        metrics: see :func:`updates`.
        lost_groups: ids of groups without any update, because the loss or the gradient was never finite.
        notices: messages for the user.
        logprobs: for each row of the step, the float32 log-probabilities of the row's ``token_ids``. They come from the
            forward pass of the row's last update, that is, from the weights before that update. The entry is None for a
            row that was in no forward pass. The list is empty if the learner does not record log-probabilities.
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
        """Train on the rows of one step; ``progress`` in [0, 1] is the position in the learning-rate schedule.

        Raises:
            ValueError: the rows' log-probabilities have different temperatures, or are restricted by top-p or top-k.
        """
        ...

    def logprobs(self, rows: Sequence[WeightedRow]) -> list[NDArray[np.floating]]:
        """Return, on every rank, the log-probabilities of each row's ``token_ids`` under the current weights, at the
        rows' temperature.
        """
        ...

    def export(self, folder: Path, adapter: bool = False) -> None:
        """Write the current weights, or only the adapter, into a folder for a sampler."""
        ...

    def writer(self, policy: Policy) -> PolicyWriter | None:
        """Return a function that writes the trained policy into a run folder. On all ranks but one, return None."""
        ...

    def save(self, folder: Path) -> None:
        """Write a checkpoint into a folder. Every rank must call this method if the policy is sharded (:attr:`whole` is
        false).

        Raises:
            UserError: writing to the disk fails.
        """
        ...

    def load(self, folder: Path) -> None:
        """Load a checkpoint written by :meth:`save`.

        Raises:
            UserError: the checkpoint is from another model.
        """
        ...


@runtime_checkable
class EntropyLearner(Protocol):
    """A learner with access to the full distribution of every token."""

    def entropies(self, rows: Sequence[WeightedRow]) -> list[NDArray[np.floating]]:
        """Return, on every rank, the entropies (in nats) of the distributions at each row's ``token_ids``."""
        ...


@runtime_checkable
class WeightsInMemory(Protocol):
    """A learner that can pass its weights to the sampler in memory."""

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        """Yield every weight with its Hugging Face name, in the dtype of matmuls. Call this method only if the policy
        is not sharded over ranks (:attr:`Learner.whole`).

        A weight may share memory with the policy, so the receiver has to copy the weight.
        """
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
    seen: Callable[[], Sequence[NDArray[np.float32] | None]] | None = None,
) -> Updated:
    """Run the updates of one training step: epochs over optimizer batches, each of which consists of whole groups.

    The metrics contain the loss's diagnostics, such as ``entropy``, as means over trained tokens, and the mean ``loss``
    of the updates. ``tokens`` is the number of trained tokens, counted anew in every epoch. The metrics also contain
    the last gradient norm, the last learning rate, and the counts ``updates``, ``skipped_no_signal``,
    ``skipped_nonfinite`` and ``rows_skipped``. If a service trains the policy, ``trained_tokens`` is the number of
    tokens sent to the service, including prompts and padding rows. The loss can add metrics of its own.

    Args:
        logprobs: computes the learner's log-probabilities on demand.
        optimizer_step: trains on one batch, and returns the diagnostics summed over the batch's tokens, the number of
            these tokens (``tokens``), and counts such as ``updates``.
        seen: a function that returns the log-probabilities from the updates' forward passes (``logprobs`` of
            :class:`Updated`); None if the learner does not record them.

    Raises:
        ValueError: the rows' log-probabilities have different temperatures, or are restricted by top-p or top-k.
    """
    refuse_modes(rows)
    rows = [replace(row, place=place) for place, row in enumerate(rows)]
    totals: dict[str, float] = {}
    one_update = seen is not None and options.epochs * options.minibatches == 1
    rows, gauges = loss.begin(rows, logprobs, one_update)
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
    passed = () if seen is None else seen()
    if one_update:
        gauges |= loss.end(rows, passed)
    return Updated(means | gauges, frozenset(lost - trained), logprobs=passed)


def refuse_modes(rows: Sequence[WeightedRow]) -> None:
    """Raise ValueError if the rows' log-probabilities have different temperatures, or are restricted by top-p or top-k,
    because importance ratios would be wrong.
    """
    modes = {row.mode for row in rows}
    if len(modes) > 1 or any(mode.top_p != 1.0 or mode.top_k != 0 for mode in modes):
        raise ValueError(f"rows of different or truncated log-probability modes in one batch: {sorted(modes)}")
