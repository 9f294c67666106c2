"""A model sharded over ranks by PyTorch's FSDP2."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer
from torch.utils._pytree import tree_map
from transformers import PreTrainedModel

from outrider.learn.held import Sum, refuse_other_weights
from outrider.model.compute import ComputePath
from outrider.model.forward import Packable, own_statistics
from outrider.model.weights_file import write_weights
from outrider.record.row import imitation_row

_NOTHING = imitation_row(np.zeros(1, np.int32), np.zeros(1, np.int32))


class ShardedModel:
    """A share of every weight, gradient and average on each rank.

    Layers are gathered one at a time, in the forward pass and again in the backward pass; what is outside of them
    (embedding, last norm, head) as one part. Gradients are added and scattered as each layer's backward pass ends. All
    ranks run the same number of passes, since each takes part in gathering what the others compute with.

    Takes over ``model``, whose parameters are sharded from then on. Its arguments are those of
    :class:`outrider.learn.held.WholeModel`.
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
        self._rank = rank
        with torch.device("meta"):
            self._shell = copy.deepcopy(model).to_empty(device="meta")  # the shape of the whole, to export it
        self._root = _Statistics(model, path, dtype)
        mesh = init_device_mesh(next(model.parameters()).device.type, (size,))
        parts = [*model.get_decoder().layers, self._root]
        for part in parts:
            fully_shard(part, mesh=mesh)
        for part in cast("list[FSDPModule]", parts):
            # a sum, not a mean: denominators are those of the whole batch already
            part.set_gradient_divide_factor(1.0)
            part.set_force_sum_reduction_for_comms(True)  # gloo has no other reduction
        self.model = model
        self.parameters = [p for p in model.parameters() if p.requires_grad]

    def statistics(self, rows: Sequence[Packable], temperature: float) -> tuple[Tensor, Tensor]:
        statistics: tuple[Tensor, Tensor] = self._root(rows, temperature)
        if not torch.is_grad_enabled():
            # FSDP leaves the outermost part gathered for a backward pass, and whoever read or wrote a parameter then
            # would have a buffer that is about to go instead of this rank's share
            cast(FSDPModule, self._root).reshard()
        return statistics

    def passes(self, mine: int) -> int:
        most = torch.tensor(mine, device=self.parameters[0].device)
        dist.all_reduce(most, op=dist.ReduceOp.MAX)
        return int(most)

    def idle(self) -> Tensor:
        logprobs_N, entropies_N = self.statistics([_NOTHING], 1.0)
        return 0.0 * (logprobs_N.sum() + entropies_N.sum())

    def finish_gradients(self) -> None:
        """They were added in the backward passes."""

    def clip(self, norm: float) -> float:
        return float(whole(torch.nn.utils.clip_grad_norm_(self.parameters, norm)))

    def weights(self) -> dict[str, Tensor]:
        return {name: whole(p.detach()) for name, p in self.model.named_parameters() if p.requires_grad}

    @torch.no_grad()
    def load(self, weights: Mapping[str, Tensor]) -> None:
        mine = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        refuse_other_weights(mine, weights)
        for name, parameter in mine.items():
            parameter.copy_(as_sharded(weights[name], parameter))

    def whole_state(self, state: Any) -> Any:
        return tree_map(lambda value: whole(value) if isinstance(value, Tensor) else value, state)

    def own_state(self, optimizer: Optimizer) -> None:
        for parameter, averages in optimizer.state.items():
            for name, value in averages.items():
                if value.shape == parameter.shape:  # not the count of its steps
                    averages[name] = as_sharded(value, parameter)

    def export(self, folder: Path) -> None:
        """Tensor by tensor, so that no GPU ever holds the whole."""
        tensors = {}
        for name, tensor in self.model.state_dict().items():
            full = whole(tensor.detach())
            if self._rank == 0:
                tensors[name] = full.cpu()
        if self._rank == 0:
            self._shell.load_state_dict(tensors, assign=True)
            write_weights(self._shell, folder)


class _Statistics(torch.nn.Module):
    """What the learner computes, as the outermost module: FSDP gathers weights where a module is called."""

    def __init__(self, model: PreTrainedModel, path: ComputePath, dtype: torch.dtype) -> None:
        super().__init__()
        self.model, self.path, self.dtype = model, path, dtype

    def forward(self, rows: Sequence[Packable], temperature: float) -> tuple[Tensor, Tensor]:
        return own_statistics(self.model, self.path, rows, self.dtype, temperature)


def whole(tensor: Tensor) -> Tensor:
    """A tensor as if it had never been sharded; every rank has to ask."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def as_sharded(tensor: Tensor, like: Tensor) -> Tensor:
    """This rank's share of a whole tensor, as ``like`` is sharded."""
    if not isinstance(like, DTensor):
        return tensor
    return distribute_tensor(tensor.to(like.device, like.dtype), like.device_mesh, like.placements)
