"""How a learner holds a model: whole in every process, or sharded over them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import Parameter
from transformers import PreTrainedModel

from outrider.learn.checkpoint_files import CheckpointFiles, WholeFiles
from outrider.learn.processes import Processes
from outrider.model.compute import ComputePath
from outrider.model.forward import own_statistics
from outrider.model.head import TokenStatistics
from outrider.model.packing import Packable


class HeldModel(Protocol):
    """A model on which all ranks compute together.

    Attributes:
        parameters: what is trained, as the optimizer sees it.
        whole: whether every rank holds all of it, so that one can save and export alone.
        files: its checkpoints.
    """

    parameters: list[Parameter]
    whole: bool
    files: CheckpointFiles

    def statistics(self, rows: Sequence[Packable], temperature: float, top: int = 0) -> TokenStatistics:
        """Of every own token of this rank's rows, end to end, and of the ``top`` likeliest at its place."""
        ...

    def idle(self, mine: int) -> Iterator[Tensor]:
        """Where this rank needs ``mine`` passes: those of no rows that it has to run before them, for the sake of ranks
        that need more, each with a loss of 0 that depends on all that is trained."""
        ...

    def finish_gradients(self, norm: float) -> float:
        """Every rank has run its backward passes: add gradients over ranks, scale them where their norm is larger than
        ``norm``, and return the norm that they had, over all ranks."""
        ...

    def exchange(self, others: Sequence[Tensor]) -> None:
        """Give what is trained the values of ``others``, which were made as copies of it, and give them its own."""
        ...

    def assembled(self, adapter: bool = False) -> PreTrainedModel | None:
        """The whole model, or one of which nothing but the adapter has weights, on one rank, and None on the others;
        every rank has to call."""
        ...


class WholeModel:
    """All weights in every process, whose gradients are added.

    Args:
        model: made ready for ``path``.
        ranks: this process among all.
        dtype: of matrix products.
    """

    whole = True
    files: CheckpointFiles = WholeFiles()

    def __init__(
        self, model: PreTrainedModel, path: ComputePath, ranks: Processes, dtype: torch.dtype = torch.float32
    ) -> None:
        self.model, self.path, self.ranks, self.dtype = model, path, ranks, dtype
        self.parameters = [p for p in model.parameters() if p.requires_grad]

    def statistics(self, rows: Sequence[Packable], temperature: float, top: int = 0) -> TokenStatistics:
        return own_statistics(self.model, self.path, rows, self.dtype, temperature, top)

    def idle(self, mine: int) -> Iterator[Tensor]:
        return iter(())  # it waits for no other rank

    def finish_gradients(self, norm: float) -> float:
        if self.ranks.size > 1:
            gradients = [p.grad for p in self.parameters if p.grad is not None]
            # one sum of everything instead of one for each parameter
            flat = self.ranks.sum_(torch.cat([g.reshape(-1) for g in gradients]))
            for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
                gradient.copy_(part.view_as(gradient))
        return float(torch.nn.utils.clip_grad_norm_(self.parameters, norm))

    def exchange(self, others: Sequence[Tensor]) -> None:
        for parameter, other in zip(self.parameters, others, strict=True):
            parameter.data, other.data = other.data, parameter.data  # nothing is copied

    def assembled(self, adapter: bool = False) -> PreTrainedModel | None:
        return self.model if self.ranks.rank == 0 else None
