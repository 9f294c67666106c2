"""How a learner holds a model: whole in every process, or sharded over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer
from transformers import PreTrainedModel

from outrider.errors import UserError
from outrider.learn.processes import Processes
from outrider.model.compute import ComputePath
from outrider.model.forward import Packable, own_statistics
from outrider.record.disk import disk_refused

WEIGHTS, OPTIMIZER = "weights.safetensors", "optimizer.pt"  # of a whole model, as in 0.1


class Training(NamedTuple):
    """What a training goes on from, beside the weights.

    Attributes:
        optimizer: whose averages are saved, or loaded into.
        counts: plain numbers to be saved: steps, the state of the objective.
        reference: the reference model where it is not the one that training began with.
    """

    optimizer: Optimizer
    counts: dict[str, Any]
    reference: PreTrainedModel | None


class HeldModel(Protocol):
    """A model on which all ranks compute together.

    Attributes:
        parameters: what is trained, as the optimizer sees it.
        whole: whether every rank holds all of it, so that one can save and export alone.
    """

    parameters: list[Parameter]
    whole: bool

    def statistics(self, rows: Sequence[Packable], temperature: float) -> tuple[Tensor, Tensor]:
        """Log-probability and entropy of every own token of this rank's rows, end to end, ``[N]`` each."""
        ...

    def passes(self, mine: int) -> int:
        """How many passes this rank has to run where it needs ``mine``; those beyond are :meth:`idle`."""
        ...

    def idle(self) -> Tensor:
        """A pass of no rows, for the sake of the other ranks: a loss of 0 that depends on all that is trained."""
        ...

    def finish_gradients(self) -> None:
        """Every rank has run its backward passes: add the gradients over ranks."""
        ...

    def clip(self, norm: float) -> float:
        """Scale gradients whose norm is larger; return the norm that they had, over all ranks."""
        ...

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

    def assembled(self) -> PreTrainedModel | None:
        """The whole model, on one rank, and None on the others; every rank has to call."""
        ...


class WholeModel:
    """All weights in every process, whose gradients are added.

    Args:
        model: made ready for ``path``.
        ranks: this process among all.
        dtype: of matrix products.
    """

    whole = True

    def __init__(
        self, model: PreTrainedModel, path: ComputePath, ranks: Processes, dtype: torch.dtype = torch.float32
    ) -> None:
        self.model, self.path, self.ranks, self.dtype = model, path, ranks, dtype
        self.parameters = [p for p in model.parameters() if p.requires_grad]

    def statistics(self, rows: Sequence[Packable], temperature: float) -> tuple[Tensor, Tensor]:
        return own_statistics(self.model, self.path, rows, self.dtype, temperature)

    def passes(self, mine: int) -> int:
        return mine

    def idle(self) -> Tensor:
        raise NotImplementedError("a whole model waits for no other rank")

    def finish_gradients(self) -> None:
        if self.ranks.size == 1:
            return
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        # one sum of everything instead of one for each parameter
        flat = self.ranks.sum_(torch.cat([g.reshape(-1) for g in gradients]))
        for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))

    def clip(self, norm: float) -> float:
        return float(torch.nn.utils.clip_grad_norm_(self.parameters, norm))

    def save(self, folder: Path, training: Training) -> None:
        state = {"optimizer": training.optimizer.state_dict(), **training.counts}
        if training.reference is not None:
            state["reference"] = {name: p.detach() for name, p in training.reference.named_parameters()}
        try:
            save_file({name: p.detach().contiguous() for name, p in trained_in(self.model).items()}, folder / WEIGHTS)
            torch.save(state, folder / OPTIMIZER)
        except (OSError, SafetensorError, RuntimeError) as error:  # the last is what torch makes of a full disk
            raise disk_refused(folder, error) from error

    @torch.no_grad()
    def load(self, folder: Path, training: Training) -> dict[str, Any]:
        refuse_other_learner(folder, WEIGHTS)
        weights, mine = load_file(folder / WEIGHTS), trained_in(self.model)
        refuse_other_weights(_shapes(mine), _shapes(weights))
        for name, parameter in mine.items():
            parameter.copy_(weights[name])
        # weights_only: a checkpoint from somewhere else must not run code
        state = torch.load(folder / OPTIMIZER, weights_only=True, map_location="cpu")
        training.optimizer.load_state_dict(state.pop("optimizer"))
        reference = state.pop("reference", {})
        if training.reference is not None:
            for name, parameter in training.reference.named_parameters():
                parameter.copy_(reference[name])
        return dict(state)

    def assembled(self) -> PreTrainedModel | None:
        return self.model if self.ranks.rank == 0 else None


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
