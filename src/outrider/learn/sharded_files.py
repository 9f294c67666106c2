"""Checkpoints of a sharded model, written with ``torch.distributed.checkpoint``: each rank writes and reads its own
shards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from safetensors import SafetensorError
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from outrider.learn.checkpoint_files import Training, refuse_other_learner, refuse_other_weights
from outrider.record.disk import disk_refused, write_atomically

COUNTS = "learner.json"
_STEPS = "averaged_steps"
_MOMENTS = ("exp_avg", "exp_avg_sq")
_FILES = 32  # files per rank; each is assembled in memory before the write


class ShardedFiles:
    """Each rank writes its shards, and their positions in the full tensors, to safetensors files named after the rank.
    Reading these files runs no code.

    The files can be read on any number of ranks. Each rank writes up to 32 files, and assembles each of them in memory.
    A rank therefore needs extra memory for 1/32 of its shards, or for its largest shard if that is larger.
    """

    def save(self, folder: Path, training: Training) -> None:
        tensors = _tensors(training)
        # AdamW stores a step count per parameter; all are equal
        steps = next((int(moments["step"]) for moments in training.optimizer.state.values()), 0)
        writer = HuggingFaceStorageWriter(str(folder), _files(tensors), save_distributed=True)
        try:
            save(tensors, storage_writer=writer)
        except CheckpointException as error:
            reasons = [one for one, _ in error.failures.values() if isinstance(one, (OSError, SafetensorError))]
            if not reasons:
                raise
            raise disk_refused(folder, reasons[0]) from error
        if dist.get_rank() == 0:
            write_atomically(folder / COUNTS, json.dumps(training.counts | {_STEPS: steps}).encode())

    @torch.no_grad()
    def load(self, folder: Path, training: Training) -> dict[str, Any]:
        refuse_other_learner(folder, COUNTS)
        counts: dict[str, Any] = json.loads((folder / COUNTS).read_bytes())
        steps = counts.pop(_STEPS)
        training.optimizer.state.clear()
        for parameter in training.weights.values() if steps else ():
            training.optimizer.state[parameter] = {
                "step": torch.tensor(float(steps), device=parameter.device),
                **{name: torch.zeros_like(parameter) for name in _MOMENTS},
            }
        reader = HuggingFaceStorageReader(str(folder))
        tensors, there = _tensors(training), reader.read_metadata().state_dict_metadata
        refuse_other_weights(
            {name: tensor.shape for name, tensor in tensors.items()},
            {name: about.size for name, about in there.items() if isinstance(about, TensorStorageMetadata)},
        )
        load(tensors, storage_reader=reader)
        return counts


def _tensors(training: Training) -> dict[str, Tensor]:
    """Return all tensors of a checkpoint, by name, without copies."""
    trained, moments = training.weights, training.optimizer.state
    tensors = {f"weights.{name}": p.detach() for name, p in trained.items()}
    for kind in _MOMENTS if moments else ():
        tensors |= {f"{kind}.{name}": moments[p][kind] for name, p in trained.items()}
    return tensors | {f"reference.{name}": tensor for name, tensor in training.reference.items()}


def _files(tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """Assign each tensor to a file, numbered from 1, so that files have about equal size."""
    sizes = np.cumsum([tensor.nbytes for tensor in tensors.values()])
    return {name: int(end * _FILES // (sizes[-1] + 1)) + 1 for name, end in zip(tensors, sizes, strict=True)}
