r"""Trains with a Tinker service: Outrider computes advantages and the weights of tokens in the loss, and the service
computes gradients.

A service offers a few built-in losses for rows with one advantage per token. If the objective is one of these losses,
each advantage is multiplied by its token's importance weight and by the token's weight in the loss, such as 1 / the
number of tokens in the batch. The gradient of any other objective is a weighted sum of gradients of log-probabilities:

.. math:: \nabla L = \sum_t \frac{\partial L}{\partial \log\pi_t} \nabla \log\pi_t.

Therefore, the service returns log-probabilities, Outrider computes the factors in float64, and the service gets the
loss :math:`-\sum_t \rho_t a_t` with :math:`a_t = -\partial L / \partial \log\pi_t` and old log-probabilities equal to
the current log-probabilities. Then :math:`\rho = 1`, and the gradient is the sum above. For such an objective, training
costs one additional forward pass. The protocol's weighted cross-entropy is not used, because a service may divide a
row's loss by the sum of the row's weights. Here, this sum can be close to 0 or negative.
"""

from __future__ import annotations

import json
import math
import shutil
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from torch import Tensor

from outrider.errors import EngineLostError, UserError
from outrider.learn.learner import Loss, PolicyWriter, Updated, refuse_modes, updates
from outrider.learn.options import LearnOptions
from outrider.learn.service_loss import NamedLoss
from outrider.learn.tinker_abilities import Abilities, abilities_of
from outrider.model.load import Policy
from outrider.model.lora import ADAPTER
from outrider.model.tinker_service import Adam, ServiceRow, TinkerService
from outrider.objective.tokens import TokenBatch
from outrider.record.disk import disk_refused, write_atomically
from outrider.record.row import WeightedRow

STATE = "tinker.json"
LINEAR = "importance_sampling"


class TinkerLearner:
    """Trains an adapter that a service holds, with the service's AdamW.

    Args:
        loss: the objective.
        named: the built-in loss that has the same gradient as the objective; None if there is no such loss.

    Raises:
        UserError: the service ignores a requested option.
    """

    whole = True

    def __init__(
        self, service: TinkerService, options: LearnOptions, loss: Loss, named: NamedLoss | None = None
    ) -> None:
        self.service, self.options, self.loss, self._named = service, options, loss, named
        self.steps = self.optimizer_steps = 0
        self.abilities = abilities_of(service)
        ignores = f"the Tinker service {service.address} silently ignores"
        if not self.abilities.epsilon:
            raise UserError(f"{ignores} epsilon, and perhaps all of Adam's parameters but the rate")
        if options.clip_norm is not None and not self.abilities.clipping:
            raise UserError(f"{ignores} gradient clipping, which learn.clip_norm requests; set learn.clip_norm=null")

    def update(self, rows: Sequence[WeightedRow], progress: float = 0.0) -> Updated:
        updated = updates(rows, self.options, self.loss, self.logprobs, self._optimizer_step, progress)
        self.steps += 1
        return updated

    def logprobs(self, rows: Sequence[WeightedRow]) -> list[NDArray[np.floating]]:
        refuse_modes(rows)
        if not rows:
            return []
        nothing = [np.zeros(len(row.token_ids)) for row in rows]
        sent = self._sent(rows, nothing, nothing)
        return _own(self.service.logprobs(sent), rows)

    def export(self, folder: Path, adapter: bool = False) -> None:
        raise NotImplementedError("the service passes weights to its sampler itself")

    def writer(self, policy: Policy) -> PolicyWriter | None:
        return partial(self._write, policy)

    def _write(self, policy: Policy, folder: Path, about: Mapping[str, Any]) -> None:
        """Write the adapter only; the base weights stay with the service."""
        part = folder.with_name(f".{folder.name}.part")
        try:
            shutil.rmtree(part, ignore_errors=True)
            self.service.download(_new_name(), part)
            _complete(part, self.service.model)
            policy.tokenizer.save_pretrained(part)
            (part / "outrider.json").write_text(json.dumps(about, indent=1) + "\n")
            part.rename(folder)
        except OSError as error:
            raise disk_refused(folder, error) from error

    def save(self, folder: Path) -> None:
        """Save the weights and the optimizer state on the service. Write the path of the saved state, step counts and
        the state of the loss to disk.
        """
        place = self.service.save(_new_name())
        counts = {"optimizer_steps": self.optimizer_steps, "steps": self.steps, "loss": self.loss.state_dict()}
        text = json.dumps({"service": self.service.address, "state": place, **counts}, indent=1)
        write_atomically(folder / STATE, text.encode())

    def load(self, folder: Path) -> None:
        if not (folder / STATE).exists():
            raise UserError(f"{folder} has no {STATE}: it was saved by another engine.learner; resume with that one")
        state = json.loads((folder / STATE).read_bytes())
        self.service.load(state["state"])
        self.optimizer_steps, self.steps = state["optimizer_steps"], state["steps"]
        self.loss.load_state_dict(state["loss"])

    def _optimizer_step(self, rows: Sequence[WeightedRow], progress: float) -> dict[str, float]:
        weighted = self.loss.prepare(rows)
        trained = [row for row in weighted if row.trained]
        result = {"rows_skipped": float(len(rows) - len(trained))}
        if not trained:
            return result | {"skipped_no_signal": 1.0}
        sums = self._exactly(trained, self._named) if self._named else self._linearly(trained)
        if sums is None:
            return result | {"skipped_nonfinite": 1.0}
        rate = self.options.rate(progress, self.steps, self.optimizer_steps)
        beta1, beta2 = self.options.betas
        told = self.service.step(Adam(rate, beta1, beta2, grad_clip_norm=self.options.clip_norm or 0.0))
        self.optimizer_steps += 1
        norms = {name.rpartition("/")[2]: value for name, value in told.items() if name.endswith("grad_norm")}
        idle = self._filled(len(trained)) - len(trained)  # padding rows are also sent and paid for
        lengths = [row.length for row in trained]
        sent = {"trained_tokens": float(sum(lengths) + idle * min(lengths))}
        return result | sums | norms | sent | {"learning_rate": rate, "updates": 1.0}

    def _exactly(self, rows: Sequence[WeightedRow], named: NamedLoss) -> dict[str, float] | None:
        """Accumulate the gradient of a built-in loss on the service, and return the loss and its diagnostics. If inputs
        are not finite, send no request and return None."""
        factors = [_factors(row) for row in rows]
        if not all(np.isfinite(factors_N).all() for factors_N in factors):
            return None
        sent = self._sent(rows, [row.old_logprobs_N for row in rows], factors)
        logprobs = _own(self.service.backward(sent, named.name, named.config), rows)
        with torch.no_grad():
            loss, diagnostics = self._loss(rows, torch.from_numpy(np.concatenate(logprobs)))
        if not math.isfinite(loss.item()):
            raise EngineLostError(
                "the loss is not finite, and the Tinker service cannot discard an accumulated gradient"
            )
        return _sums(loss, diagnostics)

    def _linearly(self, rows: Sequence[WeightedRow]) -> dict[str, float] | None:
        """Accumulate the gradient of any objective, and return the loss and its diagnostics; None if the gradient is
        not finite."""
        now = self.logprobs(rows)
        logprobs_N = torch.from_numpy(np.concatenate(now)).requires_grad_()
        loss, diagnostics = self._loss(rows, logprobs_N)
        loss.backward()
        assert logprobs_N.grad is not None
        if not (math.isfinite(loss.item()) and bool(logprobs_N.grad.isfinite().all())):
            return None
        factors = [-part.numpy() for part in logprobs_N.grad.split([len(row.token_ids) for row in rows])]
        self.service.backward(self._sent(rows, now, factors), LINEAR)
        return _sums(loss, diagnostics)

    def _loss(self, rows: Sequence[WeightedRow], logprobs_N: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        return self.loss(TokenBatch.of(rows, logprobs_N), logprobs_N, None, None)

    def _sent(
        self,
        rows: Sequence[WeightedRow],
        old_logprobs: Sequence[NDArray[np.floating]],
        advantages: Sequence[NDArray[np.floating]],
    ) -> list[ServiceRow]:
        """Return the rows in the service's format. Rows with advantage 0 are added until the number of rows is a
        multiple of ``engine.learner.tinker.rows``.
        """
        total = self._filled(len(rows))
        sent = [
            _service_row(row, old, advantage, self.abilities, total)
            for row, old, advantage in zip(rows, old_logprobs, advantages, strict=True)
        ]
        shortest = min(sent, key=lambda row: len(row.ids))
        idle = shortest._replace(advantages=np.zeros_like(shortest.advantages))
        return sent + [idle] * (total - len(rows))

    def _filled(self, rows: int) -> int:
        """Return ``rows`` rounded up to a multiple of ``engine.learner.tinker.rows``."""
        each = self.service.options.rows
        return -(-rows // each) * each


def _factors(row: WeightedRow) -> NDArray[np.float64]:
    """Return the advantage of each response token times its weights: the row's weight, the importance weight and the
    0/1 masks.
    """
    factors_N = row.weight * row.trainable_N * row.advantages_N
    for given in (row.importance_N, row.keeps_N):
        if given is not None:
            factors_N = factors_N * given
    return factors_N


def _service_row(
    row: WeightedRow,
    old_logprobs_N: NDArray[np.floating],
    advantages_N: NDArray[np.floating],
    abilities: Abilities,
    rows: int,
) -> ServiceRow:
    before = np.zeros(len(row.context_ids) - 1)
    length = row.length - 1
    factor = abilities.factor(length, rows)
    return ServiceRow(
        np.concatenate([row.context_ids, row.token_ids]),
        # observed tokens may have NaN, and NaN times an advantage of 0 is NaN
        np.concatenate([before, np.where(row.trainable_N, old_logprobs_N, 0.0)]),
        np.concatenate([before, advantages_N * factor]),
    )


def _own(logprobs: Sequence[NDArray[np.float64]], rows: Sequence[WeightedRow]) -> list[NDArray[np.floating]]:
    """Return the log-probabilities of the tokens after each row's context. Padding rows are excluded."""
    return [found[-len(row.token_ids) :] for found, row in zip(logprobs, rows, strict=False)]


def _sums(loss: Tensor, diagnostics: Mapping[str, Tensor]) -> dict[str, float]:
    return {"loss": float(loss.detach())} | {name: float(value) for name, value in diagnostics.items()}


def _complete(folder: Path, base: str) -> None:
    """Add missing fields to an adapter's config: its base model and its layers."""
    file = folder / ADAPTER
    config = json.loads(file.read_bytes())
    with safe_open(folder / "adapter_model.safetensors", "pt") as weights:
        names = list(weights.keys())
    layers = {name.partition(".lora_")[0].rpartition(".")[2] for name in names if ".lora_" in name}
    config["target_modules"] = config.get("target_modules") or sorted(layers)
    config["base_model_name_or_path"] = config.get("base_model_name_or_path") or base
    file.write_text(json.dumps(config, indent=1) + "\n")


def _new_name() -> str:
    """Return a unique name, so that no two runs save to the same path."""
    return f"outrider-{uuid.uuid4().hex[:16]}"
