"""The ways in which a learner holds a model: replicated in every process, or sharded over processes."""

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
    """A model that all ranks train together.

    Attributes:
        parameters: trained parameters, for the optimizer.
        whole: whether the model is replicated, so that one rank can save and export alone.
        files: reader and writer of checkpoints.
    """

    parameters: list[Parameter]
    whole: bool
    files: CheckpointFiles

    def statistics(self, rows: Sequence[Packable], temperature: float, top: int = 0) -> TokenStatistics:
        """Return log-probabilities and entropies of the ``token_ids`` of this rank's rows, concatenated in order.
        Include the log-probabilities of the ``top`` most likely tokens at each position.
        """
        ...

    def idle(self, mine: int) -> Iterator[Tensor]:
        """Yield losses of 0, so that all ranks of a sharded model run the same number of passes. ``mine`` is the number
        of this rank's passes. If another rank has more, this rank calls ``backward`` on one such loss per missing pass.
        The losses depend on all trained parameters.
        """
        ...

    def finish_gradients(self, norm: float) -> float:
        """Sum gradients over ranks after all backward passes, and clip their global norm to ``norm``. Return the global
        norm before clipping.
        """
        ...

    def exchange(self, others: Sequence[Tensor]) -> None:
        """Swap the values of the trained parameters with ``others``, one tensor per parameter."""
        ...

    def assembled(self, adapter: bool = False) -> PreTrainedModel | None:
        """Return the whole model on rank 0, and None on other ranks. With ``adapter``, weights outside the adapter may
        be missing. Every rank must call this method.
        """
        ...


class WholeModel:
    """A replicated model; gradients are summed over processes.

    Args:
        model: the model, set up by :func:`outrider.sample.ready.ready`.
        ranks: the processes of the run.
        dtype: dtype of matmuls.
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
        return iter(())  # ranks of a replicated model do not wait for each other in a pass

    def finish_gradients(self, norm: float) -> float:
        if self.ranks.size > 1:
            gradients = [p.grad for p in self.parameters if p.grad is not None]
            # one all-reduce instead of one per parameter
            flat = self.ranks.sum_(torch.cat([g.reshape(-1) for g in gradients]))
            for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
                gradient.copy_(part.view_as(gradient))
        return float(torch.nn.utils.clip_grad_norm_(self.parameters, norm))

    def exchange(self, others: Sequence[Tensor]) -> None:
        for parameter, other in zip(self.parameters, others, strict=True):
            parameter.data, other.data = other.data, parameter.data  # nothing is copied

    def assembled(self, adapter: bool = False) -> PreTrainedModel | None:
        return self.model if self.ranks.rank == 0 else None
