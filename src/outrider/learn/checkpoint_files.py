"""Checkpoints of a learner on disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer
from transformers import PreTrainedModel

from outrider.errors import UserError
from outrider.model.tensors_file import pending, write_tensors
from outrider.record.disk import disk_refused

TRAINED, OPTIMIZER = "weights.safetensors", "optimizer.pt"  # of a replicated model, named as in version 0.1


class Training(NamedTuple):
    """The state of a learner to save or load.

    Attributes:
        weights: trained weights, by name.
        optimizer: the optimizer whose state is saved or loaded.
        counts: all other state, such as the number of optimizer steps and the ``state_dict`` of the loss.
        reference: weights of the reference policy, by name; empty if the reference is always the initial model.
    """

    weights: Mapping[str, Parameter]
    optimizer: Optimizer
    counts: dict[str, Any]
    reference: Mapping[str, Tensor]


class CheckpointFiles(Protocol):
    """Reads and writes checkpoints for one way of distributing a model over ranks, such as replication or sharding."""

    def save(self, folder: Path, training: Training) -> None:
        """Write the trained weights and the training state without copying them in memory. Every rank must call this
        method.

        Raises:
            UserError: the write fails.
        """
        ...

    def load(self, folder: Path, training: Training) -> dict[str, Any]:
        """Load files that :meth:`save` has written, possibly with another number of ranks. Return the saved ``counts``.
        Every rank must call this method.

        Raises:
            UserError: the checkpoint is from another model.
        """
        ...


class WholeFiles:
    """Checkpoints of a replicated model: one file with the trained weights, and one with everything else."""

    def save(self, folder: Path, training: Training) -> None:
        state = {"optimizer": training.optimizer.state_dict(), **training.counts}
        if training.reference:
            state["reference"] = dict(training.reference)
        try:
            write_tensors(folder / TRAINED, {name: pending(p) for name, p in training.weights.items()})
            torch.save(state, folder / OPTIMIZER)
        except (OSError, RuntimeError) as error:  # torch raises RuntimeError on a full disk
            raise disk_refused(folder, error) from error

    @torch.no_grad()
    def load(self, folder: Path, training: Training) -> dict[str, Any]:
        refuse_other_learner(folder, TRAINED)
        weights = load_file(folder / TRAINED)
        refuse_other_weights(_shapes(training.weights), _shapes(weights))
        for name, parameter in training.weights.items():
            parameter.copy_(weights[name])
        # weights_only: a checkpoint from an unknown source must not run code
        state = torch.load(folder / OPTIMIZER, weights_only=True, map_location="cpu")
        training.optimizer.load_state_dict(state.pop("optimizer"))
        reference = state.pop("reference", {})
        for name, tensor in training.reference.items():
            tensor.copy_(reference[name])
        return dict(state)


def trained_in(model: PreTrainedModel) -> dict[str, Parameter]:
    """Return the trained parameters of a model, by name."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def refuse_other_weights(mine: Mapping[str, torch.Size], theirs: Mapping[str, torch.Size]) -> None:
    """Raise UserError if names or shapes of the checkpoint's tensors differ from the model's."""
    if mine != theirs:
        raise UserError("the checkpoint holds the weights of another model")


def refuse_other_learner(folder: Path, needed: str) -> None:
    """Raise UserError if the checkpoint was written by another kind of learner."""
    if not (folder / needed).exists():
        raise UserError(f"{folder} has no {needed}: it was saved by another engine.learner; resume with that one")


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in tensors.items()}
