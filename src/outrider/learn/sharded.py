"""A model sharded over ranks by PyTorch's FSDP2."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import HashStore  # type: ignore[attr-defined]  # missing from the stub
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn import Parameter
from transformers import PreTrainedModel

from outrider.errors import UserError
from outrider.learn.checkpoint_files import CheckpointFiles, trained_in
from outrider.learn.processes import Processes
from outrider.learn.recompute import layers_of
from outrider.learn.sharded_files import ShardedFiles
from outrider.model.compute import ComputePath
from outrider.model.device import placement
from outrider.model.forward import own_statistics
from outrider.model.head import TokenStatistics
from outrider.model.packing import Packable
from outrider.record.row import imitation_row

_NOTHING = imitation_row(np.zeros(1, np.int32), np.zeros(1, np.int32))


class ShardedModel:
    """Parameters, gradients and optimizer state sharded over ranks.

    Layers are gathered one at a time, in the forward pass and again in the backward pass, in ``dtype``. The rest
    (embedding, last norm, head) is gathered as one part, in float32, so that the residual stream is the same as in a
    replicated model. Gradients are reduce-scattered in float32 after each layer's backward pass. All ranks run the same
    number of passes, since each rank takes part in all gathers.

    The class takes ownership of ``model``, which may be in host memory, and shards the model onto this rank's device.
    The other arguments are the same as in :class:`outrider.learn.held.WholeModel`.

    Args:
        offload: whether shards, gradients and optimizer state stay in host memory. If so, each layer is on the device
            only while the layer is computed.

    Raises:
        UserError: the architecture has no layers that can be gathered one at a time.
    """

    whole = False
    files: CheckpointFiles = ShardedFiles()

    def __init__(
        self,
        model: PreTrainedModel,
        path: ComputePath,
        ranks: Processes,
        dtype: torch.dtype = torch.float32,
        offload: bool = False,
    ) -> None:
        layers = layers_of(model, "engine.learner=fsdp2")
        self._ranks, self._offload, self._device = ranks, offload, placement().device
        if offload and self._device.type == "cpu":
            raise UserError("engine.learner.fsdp2.offload requires a GPU, and there is none: set it to false")
        self._shell = _without_weights(model)
        self._root = _Statistics(model, path, dtype)
        if not dist.is_initialized():  # a single process, which may offload; `Ranks.leave` ends the group
            dist.init_process_group(store=HashStore(), rank=ranks.rank, world_size=ranks.size)
        mesh = init_device_mesh(self._device.type, (ranks.size,))
        # Autocast would copy each weight to ``dtype``, and autograd would hold all copies until the backward pass.
        # Weights that are already in ``dtype`` are used directly, and freed with the layer.
        low = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32, cast_forward_inputs=False)
        where = CPUOffloadPolicy() if offload else OffloadPolicy()
        for layer in layers:
            fully_shard(layer, mesh=mesh, mp_policy=low, offload_policy=where)
        fully_shard(self._root, mesh=mesh, offload_policy=where)
        for part in cast("list[FSDPModule]", [*layers, self._root]):
            # a sum, not a mean: denominators already cover the whole batch
            part.set_gradient_divide_factor(1.0)
            part.set_force_sum_reduction_for_comms(True)  # gloo has no other reduction
        self.model = model
        self.parameters = [p for p in model.parameters() if p.requires_grad]

    def statistics(self, rows: Sequence[Packable], temperature: float, top: int = 0) -> TokenStatistics:
        statistics: TokenStatistics = self._root(rows, temperature, top)
        if not torch.is_grad_enabled():
            # FSDP leaves the outermost part gathered for the backward pass; code that then reads or writes a parameter
            # would get a temporary buffer instead of this rank's shard
            cast(FSDPModule, self._root).reshard()
        return statistics

    def idle(self, mine: int) -> Iterator[Tensor]:
        most = torch.tensor(mine, device=self._device)
        dist.all_reduce(most, op=dist.ReduceOp.MAX)
        for _ in range(int(most) - mine):
            nothing = self.statistics([_NOTHING], 1.0)
            yield 0.0 * (nothing.logprobs_T.sum() + nothing.entropies_T.sum())

    def finish_gradients(self, norm: float) -> float:
        # already summed in the backward passes
        return float(_whole(torch.nn.utils.clip_grad_norm_(self.parameters, norm)))

    @torch.no_grad()
    def exchange(self, others: Sequence[Tensor]) -> None:
        if self._offload:  # shards may still be in transfer
            torch.cuda.synchronize(self._device)
        for parameter, other in zip(self.parameters, others, strict=True):
            mine, its = (cast(DTensor, tensor.detach()).to_local() for tensor in (parameter, other))
            kept = mine.clone()  # swapped in place, since FSDP gathers from the shard's memory
            mine.copy_(its)
            its.copy_(kept)

    def assembled(self, adapter: bool = False) -> PreTrainedModel | None:
        """Assemble the model tensor by tensor, so that no GPU holds the whole model."""
        tensors = {}
        with self._ranks.linked():
            for name, tensor in (trained_in(self.model) if adapter else self.model.state_dict()).items():
                full = _whole(tensor.detach().to(self._device))
                if self._ranks.rank == 0:
                    tensors[name] = full.cpu()
        if self._ranks.rank != 0:
            return None
        assembled = copy.deepcopy(self._shell)  # a copy, since the shell would keep the weights in memory
        assembled.load_state_dict(tensors, strict=not adapter, assign=True)
        assembled.tie_weights()
        return assembled


class _Statistics(torch.nn.Module):
    """Wraps :func:`own_statistics` in a module, since FSDP gathers weights only when a module is called."""

    def __init__(self, model: PreTrainedModel, path: ComputePath, dtype: torch.dtype) -> None:
        super().__init__()
        self.model, self.path, self.dtype = model, path, dtype

    def forward(self, rows: Sequence[Packable], temperature: float, top: int) -> TokenStatistics:
        return own_statistics(self.model, self.path, rows, self.dtype, temperature, top)


def _without_weights(model: PreTrainedModel) -> PreTrainedModel:
    """Return a copy of the model that has no weights (its tensors are on the meta device)."""
    memo: dict[int, Tensor] = {}  # marks tensors as already copied for deepcopy
    for tensor in [*model.parameters(), *model.buffers()]:
        empty = torch.empty_like(tensor, device="meta")
        memo[id(tensor)] = Parameter(empty, tensor.requires_grad) if isinstance(tensor, Parameter) else empty
    return copy.deepcopy(model, memo)


def _whole(tensor: Any) -> Tensor:
    """Assemble and return a full tensor from its shards; every rank must call this function."""
    full: Tensor = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return full
