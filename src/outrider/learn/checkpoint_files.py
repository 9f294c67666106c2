"""What a training goes on from, on disk: checkpoints of a learner."""

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

TRAINED, OPTIMIZER = "weights.safetensors", "optimizer.pt"  # of a whole model, as in 0.1


class Training(NamedTuple):
    """What a training goes on from.

    Attributes:
        weights: that are trained, by name.
        optimizer: whose state is saved, or loaded into.
        counts: plain numbers to be saved: steps, the state of the objective.
        reference: the same weights of the reference, where it is not the model that training began with; else empty.
    """

    weights: Mapping[str, Parameter]
    optimizer: Optimizer
    counts: dict[str, Any]
    reference: Mapping[str, Tensor]


class CheckpointFiles(Protocol):
    """Checkpoints of one way to hold a model."""

    def save(self, folder: Path, training: Training) -> None:
        """Write what is trained and the state of its training, without a copy of it; every rank has to call.

        Raises:
            UserError: the disk refuses.
        """
        ...

    def load(self, folder: Path, training: Training) -> dict[str, Any]:
        """Take over what :meth:`save` wrote, on any number of ranks, and return its counts; every rank has to call.

        Raises:
            UserError: they are those of another model.
        """
        ...


class WholeFiles:
    """Of a model that every rank holds whole: one file of its weights, and one of the rest."""

    def save(self, folder: Path, training: Training) -> None:
        state = {"optimizer": training.optimizer.state_dict(), **training.counts}
        if training.reference:
            state["reference"] = dict(training.reference)
        try:
            write_tensors(folder / TRAINED, {name: pending(p) for name, p in training.weights.items()})
            torch.save(state, folder / OPTIMIZER)
        except (OSError, RuntimeError) as error:  # the last is what torch makes of a full disk
            raise disk_refused(folder, error) from error

    @torch.no_grad()
    def load(self, folder: Path, training: Training) -> dict[str, Any]:
        refuse_other_learner(folder, TRAINED)
        weights = load_file(folder / TRAINED)
        refuse_other_weights(_shapes(training.weights), _shapes(weights))
        for name, parameter in training.weights.items():
            parameter.copy_(weights[name])
        # weights_only: a checkpoint from somewhere else must not run code
        state = torch.load(folder / OPTIMIZER, weights_only=True, map_location="cpu")
        training.optimizer.load_state_dict(state.pop("optimizer"))
        reference = state.pop("reference", {})
        for name, tensor in training.reference.items():
            tensor.copy_(reference[name])
        return dict(state)


def trained_in(model: PreTrainedModel) -> dict[str, Parameter]:
    """What is trained of a model, by name."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def refuse_other_weights(mine: Mapping[str, torch.Size], theirs: Mapping[str, torch.Size]) -> None:
    """Raise UserError where a checkpoint holds tensors of other names or shapes."""
    if mine != theirs:
        raise UserError("the checkpoint holds the weights of another model")


def refuse_other_learner(folder: Path, needed: str) -> None:
    """Raise UserError where a checkpoint was written by a learner that holds its model otherwise."""
    if not (folder / needed).exists():
        raise UserError(
            f"{folder} holds no {needed}: it was saved by another engine.learner than this one, and is resumed by that"
        )


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in tensors.items()}
