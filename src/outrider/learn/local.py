"""The local learner: packed forward and backward passes and one optimizer, for any number of processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from outrider.learn.batching import Sized, micro_batches, split_by_tokens
from outrider.learn.checkpoint_files import Training, trained_in
from outrider.learn.deterministic import deterministic_algorithms
from outrider.learn.held import HeldModel, WholeModel
from outrider.learn.learner import Loss, PolicyWriter, Updated, refuse_modes, updates
from outrider.learn.memory_guard import Passes, available, memory_limit, ran_out
from outrider.learn.options import LearnOptions
from outrider.learn.processes import OneProcess, Processes
from outrider.learn.recompute import recompute_layers
from outrider.learn.seen_logprobs import SeenLogprobs
from outrider.model.compute import PACKED, ComputePath
from outrider.model.head import TokenStatistics
from outrider.model.load import Policy, save_policy
from outrider.model.lora import write_adapter
from outrider.model.unpadded import attention_on
from outrider.model.weights_file import named_weights, write_weights
from outrider.objective.tokens import TokenBatch
from outrider.record import Ids
from outrider.record.row import WeightedRow

Hold = Callable[[PreTrainedModel, ComputePath, Processes, torch.dtype], HeldModel]
"""Creates a :class:`outrider.learn.held.HeldModel` from a model that every rank has loaded."""


class LocalLearner:
    """Trains a causal language model with AdamW.

    ``update`` gets all rows on every rank; each rank computes its share of the rows, and gradients are summed. Rows
    that cannot change the gradient are skipped, but still count in the denominators of the loss. An optimizer batch is
    skipped if its loss or gradient is not finite, or if none of its rows can change the gradient. The metrics count
    skipped batches. All log-probabilities of a step must have the same mode (temperature, top-p and top-k), since a
    ratio of log-probabilities of different modes has no meaning.

    Args:
        model: the model, set up by :func:`outrider.sample.ready.ready`.
        loss: the objective.
        ranks: the processes of the run.
        dtype: dtype of matmuls. Trained weights, gradients and optimizer state stay float32.
        path: implementation that computes log-probabilities.
        hold: function that replicates or shards the model.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        options: LearnOptions,
        loss: Loss,
        ranks: Processes | None = None,
        dtype: torch.dtype = torch.float32,
        path: ComputePath = PACKED,
        hold: Hold = WholeModel,
    ) -> None:
        self.model, self.options, self.loss = model, options, loss
        self.ranks, self.dtype, self.path = ranks or OneProcess(), dtype, path
        # compares the kernel now: a recomputed layer must run the same operations in both passes
        attention_on(next(model.parameters()).device, dtype)
        if options.recomputes:
            recompute_layers(model)
        self.held = hold(model, path, self.ranks, dtype)
        self.parameters = self.held.parameters
        # A copy of only the trained weights (for an adapter, its initial state), swapped in to compute the reference.
        self.reference = [p.detach().clone() for p in self.parameters] if loss.needs.reference else []
        self.optimizer = self._new_optimizer()
        self.steps = self.optimizer_steps = 0
        self._seen = SeenLogprobs()
        self.passes = self._asked = Passes(options.tokens_of_a_pass, options.recomputes)

    def update(self, rows: Sequence[WeightedRow], progress: float = 0.0) -> Updated:
        before = self.passes
        seen = self._seen = SeenLogprobs()
        sizes = [len(row.token_ids) for row in rows]
        passed = partial(seen.of, sizes, self.ranks)
        with self.ranks.linked():
            updated = updates(rows, self.options, self.loss, self.logprobs, self._optimizer_step, progress, passed)
        if self.passes != before:
            updated = updated._replace(notices=[f"out of memory in the backward pass: continuing with {self.passes}"])
        self.steps += 1
        if self.loss.needs.reset_every and self.steps % self.loss.needs.reset_every == 0:
            self.reset_reference()
            updated.metrics["reference_resets"] = 1.0
        return updated

    @property
    def whole(self) -> bool:
        return self.held.whole

    def logprobs(self, rows: Sequence[WeightedRow]) -> list[NDArray[np.floating]]:
        """Return, on every rank, the log-probabilities of each row's ``token_ids`` under the current weights, at the
        rows' temperature.

        Each rank computes its share of the rows.
        """
        with self.ranks.linked():
            return self._statistics(rows, 0)

    def entropies(self, rows: Sequence[WeightedRow]) -> list[NDArray[np.floating]]:
        """Return, on every rank, the entropies (in nats) of the distributions at each row's ``token_ids``."""
        with self.ranks.linked():
            return self._statistics(rows, 1)

    @torch.no_grad()
    def _statistics(self, rows: Sequence[WeightedRow], which: int) -> list[NDArray[np.floating]]:
        refuse_modes(rows)
        ends = np.cumsum([len(row.token_ids) for row in rows])
        slots = [Slot(row, int(end) - len(row.token_ids)) for row, end in zip(rows, ends, strict=True)]
        # zeros for rows that other ranks compute; the sum over ranks fills them in
        values_N = torch.zeros(int(ends[-1]) if len(ends) else 0, dtype=_wide(self.model))
        micros = self._micro_batches(slots)
        computed = self._passes([[slot.row for slot in micro] for micro in micros], which)
        for micro, values in zip(micros, computed, strict=True):
            parts = values.cpu().split([len(slot.row.token_ids) for slot in micro])
            for slot, part in zip(micro, parts, strict=True):
                values_N[slot.start : slot.start + len(part)] = part
        return np.split(self.ranks.sum_(values_N).numpy(), ends[:-1]) if len(ends) else []

    @torch.no_grad()
    def _passes(self, micros: Sequence[Sequence[WeightedRow]], which: int) -> list[Tensor]:
        """Return log-probabilities (``which`` = 0) or entropies (``which`` = 1) of each micro-batch. Results stay on
        the device until all passes are done, because reading a result makes the process wait for the device."""
        for _ in self.held.idle(len(micros)):
            pass
        return [self._forward(rows)[which] for rows in micros]

    @torch.no_grad()
    def _reference_logprobs(self, micros: Sequence[Sequence[WeightedRow]]) -> Sequence[Tensor | None]:
        if not self.reference:
            return [None] * len(micros)
        self.held.exchange(self.reference)
        try:
            return self._passes(micros, 0)
        finally:
            self.held.exchange(self.reference)

    @torch.no_grad()
    def reset_reference(self) -> None:
        """Copy the policy into the reference policy, and reset the optimizer state. The warm-up is not repeated.

        Source: ProRL, arXiv 2505.24864.
        """
        for old, new in zip(self.reference, self.parameters, strict=True):
            old.copy_(new)
        self.optimizer = self._new_optimizer()

    def export(self, folder: Path, adapter: bool = False) -> None:
        """Export the weights in the dtype of matmuls; see :func:`outrider.model.weights_file.write_weights`."""
        if (model := self.held.assembled(adapter)) is None:
            return
        if adapter:
            write_adapter(model, folder)
        else:
            write_weights(model, folder, self.dtype)

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        """See :class:`outrider.learn.learner.WeightsInMemory`."""
        return named_weights(self.model, self.dtype)

    def writer(self, policy: Policy) -> PolicyWriter | None:
        model = self.held.assembled()
        return None if model is None else partial(save_policy, policy._replace(model=model))

    def save(self, folder: Path) -> None:
        """Write a checkpoint into a folder. Every rank must call this method if the model is sharded.

        The checkpoint contains the trained weights, the optimizer state, step counts and the ``state_dict`` of the
        loss. It also contains the reference policy if the recipe resets the reference; otherwise, the reference is the
        initial model.

        Raises:
            UserError: writing to the disk fails.
        """
        counts = {"optimizer_steps": self.optimizer_steps, "steps": self.steps, "loss": self.loss.state_dict()}
        if self.passes != self._asked:
            counts["passes"] = [*self._asked, *self.passes]
        self.held.files.save(folder, self._training(counts))

    def load(self, folder: Path) -> None:
        """Load a checkpoint written by :meth:`save`; every rank must call this method.

        Raises:
            UserError: the checkpoint is from another model.
        """
        decays = [group["weight_decay"] for group in self.optimizer.param_groups]
        counts = self.held.files.load(folder, self._training({}))
        for group, decay in zip(
            self.optimizer.param_groups, decays, strict=True
        ):  # current options override saved options
            group.update(weight_decay=decay, betas=self.options.betas)
        self.optimizer_steps, self.steps = counts["optimizer_steps"], counts["steps"]
        self.loss.load_state_dict(counts["loss"])
        # reduced pass sizes are kept if the requested sizes are unchanged
        asked = counts.get("passes", [])
        if asked[:2] == [*self._asked]:
            self._take(Passes(*asked[2:]))

    def _training(self, counts: dict[str, Any]) -> Training:
        trained = trained_in(self.model)
        reference = dict(zip(trained, self.reference, strict=True)) if self.loss.needs.reset_every else {}
        return Training(trained, self.optimizer, counts, reference)

    def _new_optimizer(self) -> torch.optim.AdamW:
        options = self.options
        # biases and norm weights are vectors; whether they have weight decay is an option
        matrices = [p for p in self.parameters if p.ndim >= 2]
        others = [p for p in self.parameters if p.ndim < 2]
        decay = options.weight_decay
        groups = [
            {"params": matrices, "weight_decay": decay},
            {"params": others, "weight_decay": decay if options.decay == "all" else 0.0},
        ]
        return torch.optim.AdamW(groups, lr=options.lr, betas=options.betas, fused=True)

    def _optimizer_step(self, rows: Sequence[WeightedRow], progress: float) -> dict[str, float]:
        weighted = self.loss.prepare(rows)
        trained = [row for row in weighted if row.trained]
        result = {"rows_skipped": float(len(rows) - len(trained))}
        if not trained:
            return result | {
                "skipped_no_signal": 1.0
            }  # with a zero gradient, AdamW's momentum would still move weights
        self._seen.begin(trained)
        with deterministic_algorithms(self.options.deterministic):
            result |= self._gradients(trained)
        # after the sum over ranks, so that all ranks make the same decision
        norm = self.held.finish_gradients(math.inf if self.options.clip_norm is None else self.options.clip_norm)
        if not (math.isfinite(norm) and math.isfinite(result["loss"])):
            return {"rows_skipped": result["rows_skipped"], "skipped_nonfinite": 1.0}
        rate = self.options.rate(progress, self.steps, self.optimizer_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer_steps += 1
        return result | {"grad_norm": norm, "learning_rate": rate, "updates": 1.0}

    def _micro_batches(self, rows: Sequence[Sized]) -> list[list[Sized]]:
        """Return the micro-batches of this rank's share of the rows."""
        shares = self.path.name != "plain"
        share = split_by_tokens(rows, self.ranks.size, shares)[self.ranks.rank]
        return micro_batches(share, self.passes.tokens, shares)

    def _gradients(self, rows: Sequence[WeightedRow]) -> dict[str, float]:
        """Compute the gradients of this rank's share of the rows, and return the sums of diagnostics over all ranks. If
        a rank runs out of memory, all ranks retry with smaller passes.

        Raises:
            UserError: even the longest row alone does not fit in memory.
        """
        while True:
            self.optimizer.zero_grad(set_to_none=False)
            sums = self._accumulate(self._micro_batches(rows), self._free())
            if not sums.pop("ran_out"):
                return sums
            if self.parameters[0].device.type == "cuda":
                torch.cuda.empty_cache()
            lengths = [row.length for row in rows]
            self._seen.forget()
            self._take(self.passes.smaller(min(self.passes.tokens, sum(lengths)), max(lengths)))

    def _free(self) -> int | None:
        """Return this rank's memory limit in bytes: its share of the memory that is available before any rank starts
        its passes. Return None if there is no limit, for example on a GPU.

        A sharded model also has no limit, because a pass that ran out of memory could not be retried: all ranks run it
        together.
        """
        if self.parameters[0].device.type != "cpu" or not self.whole:
            return None
        free = available()
        if self.ranks.size == 1 or free is None:
            return free
        # the mean over ranks, divided equally among them; the sum is a collective, so no rank continues before all have
        # read their free memory
        return int(self.ranks.sum_(torch.tensor([free], dtype=torch.float64))) // self.ranks.size**2

    def _take(self, passes: Passes) -> None:
        if passes.recomputed and not self.passes.recomputed:
            recompute_layers(self.model)
        self.passes = passes

    def _accumulate(self, micros: Sequence[Sequence[WeightedRow]], free: int | None = None) -> dict[str, float]:
        """Accumulate the gradients of this rank's rows, and return the sums of diagnostics over all ranks. In the
        result, ``ran_out`` is the number of ranks that ran out of memory.
        """
        sums: dict[str, Tensor] = {}
        out = 0.0
        try:
            with memory_limit(free):
                self._backward(micros, sums)
        except (RuntimeError, MemoryError) as error:
            # ranks of a sharded model wait for each other within a pass, so the error ends the run
            if not (self.whole and ran_out(error)):
                raise
            out = 1.0
        # by name, since a rank without rows has no sums
        names = ["loss", *self.loss.needs.diagnostics] if self.ranks.size > 1 else [*sums]
        none = torch.zeros((), dtype=torch.float64, device=self.parameters[0].device)
        packed = torch.stack([none + out, *(sums.get(name, none) for name in names)]).cpu()
        return dict(zip(["ran_out", *names], self.ranks.sum_(packed).tolist(), strict=True))

    def _backward(self, micros: Sequence[Sequence[WeightedRow]], sums: dict[str, Tensor]) -> None:
        """Accumulate the gradients of micro-batches, and add the diagnostics of the micro-batches to ``sums``."""
        for parameter in self.parameters:
            if parameter.grad is None:  # a rank without rows also takes part in the sum of gradients
                parameter.grad = torch.zeros_like(parameter)
        references = self._reference_logprobs(micros)
        for nothing in self.held.idle(len(micros)):
            nothing.backward()
        for micro, reference_N in zip(micros, references, strict=True):
            logprobs_N, entropies_N, top_NK = self._forward(micro, self.loss.needs.top)
            tokens = TokenBatch.of(micro, logprobs_N)
            loss, diagnostics = self.loss(tokens, logprobs_N, entropies_N, reference_N, top_NK)
            loss.backward()
            self._seen.add(micro, logprobs_N)
            for name, value in (diagnostics | {"loss": loss.detach()}).items():
                # in float64, for sums of many small terms; on the device, since each read synchronises
                sums[name] = sums.get(name, torch.zeros_like(value, dtype=torch.float64)) + value.double()

    def _forward(self, rows: Sequence[WeightedRow], top: int = 0) -> TokenStatistics:
        return self.held.statistics(rows, rows[0].mode.temperature, top)


class Slot(NamedTuple):
    """A row, and the position of its first token in the concatenated ``token_ids`` of all rows."""

    row: WeightedRow
    start: int

    @property
    def context_ids(self) -> Ids:
        return self.row.context_ids

    @property
    def token_ids(self) -> Ids:
        return self.row.token_ids

    @property
    def length(self) -> int:
        return self.row.length


def _wide(model: PreTrainedModel) -> torch.dtype:
    """Return the dtype of log-probabilities: float32 or wider."""
    return torch.promote_types(next(model.parameters()).dtype, torch.float32)
