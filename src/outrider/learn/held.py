"""How a learner holds a model: whole in every process, or sharded over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer
from transformers import PreTrainedModel

from outrider.errors import UserError
from outrider.model.compute import ComputePath
from outrider.model.forward import Packable, own_statistics
from outrider.model.weights_file import write_weights


class Sum(Protocol):
    """Adds a tensor over ranks, in place."""

    def __call__(self, tensor: Tensor) -> Tensor: ...


class HeldModel(Protocol):
    """A model on which all ranks compute together.

    Attributes:
        parameters: what is trained, as the optimizer sees it.
    """

    parameters: list[Parameter]

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

    def weights(self) -> dict[str, Tensor]:
        """What is trained, by name and whole; every rank has to ask."""
        ...

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Take over what is trained.

        Raises:
            UserError: they are those of another model.
        """
        ...

    def whole_state(self, state: Any) -> Any:
        """Nested data of the optimizer with every tensor whole; every rank has to ask."""
        ...

    def own_state(self, optimizer: Optimizer) -> None:
        """Let an optimizer that has loaded whole tensors keep what this rank needs of them."""
        ...

    def export(self, folder: Path) -> None:
        """Write the whole model's weights into a folder, on one rank; every rank has to ask."""
        ...


class WholeModel:
    """All weights in every process, whose gradients are added.

    Args:
        model: made ready for ``path``.
        rank, size, add: this process among all, and their sum.
        dtype: of matrix products.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        path: ComputePath,
        rank: int,
        size: int,
        add: Sum,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.model, self.path, self.dtype = model, path, dtype
        self._rank, self._size, self._add = rank, size, add
        self.parameters = [p for p in model.parameters() if p.requires_grad]

    def statistics(self, rows: Sequence[Packable], temperature: float) -> tuple[Tensor, Tensor]:
        return own_statistics(self.model, self.path, rows, self.dtype, temperature)

    def passes(self, mine: int) -> int:
        return mine

    def idle(self) -> Tensor:
        raise NotImplementedError("a whole model waits for no other rank")

    def finish_gradients(self) -> None:
        if self._size == 1:
            return
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        # one sum of everything instead of one for each parameter
        flat = self._add(torch.cat([g.reshape(-1) for g in gradients]))
        for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))

    def clip(self, norm: float) -> float:
        return float(torch.nn.utils.clip_grad_norm_(self.parameters, norm))

    def weights(self) -> dict[str, Tensor]:
        return {name: p.detach() for name, p in self.model.named_parameters() if p.requires_grad}

    def whole_state(self, state: Any) -> Any:
        return state

    def own_state(self, optimizer: Optimizer) -> None:
        """All of them."""

    def export(self, folder: Path) -> None:
        if self._rank == 0:
            write_weights(self.model, folder)

    @torch.no_grad()
    def load(self, weights: Mapping[str, Tensor]) -> None:
        mine = self.weights()
        refuse_other_weights(mine, weights)
        for name, parameter in mine.items():
            parameter.copy_(weights[name])


def refuse_other_weights(mine: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
    """Raise UserError where a checkpoint is one of another model."""
    if {name: p.shape for name, p in mine.items()} != {name: tensor.shape for name, tensor in weights.items()}:
        raise UserError("the checkpoint holds the weights of another model")
