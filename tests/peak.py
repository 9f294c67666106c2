"""How much tensors hold at once."""

from __future__ import annotations

import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Peak(TorchDispatchMode):
    """The most elements that were alive at once, of all that operations have made."""

    def __init__(self) -> None:
        super().__init__()
        self.alive, self.most = 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, (tuple, list)) else [made]:
            if isinstance(tensor, torch.Tensor) and not func.is_view and func._schema.name[-1] != "_":
                self.alive += tensor.numel()
                weakref.finalize(tensor, self._gone, tensor.numel())
        self.most = max(self.most, self.alive)
        return made

    def _gone(self, elements: int) -> None:
        self.alive -= elements
