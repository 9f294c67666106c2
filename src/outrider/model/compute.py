"""The implementations of a policy's forward passes (compute paths). Does not import torch."""

from __future__ import annotations

from typing import Literal, NamedTuple

PathName = Literal["fused", "packed", "plain"]


class ComputePath(NamedTuple):
    """The implementation of a policy's forward passes; selected by :func:`outrider.sample.ready.ready`.

    ========  ======================================  ===========================================================
    name      sampler                                 learner
    ========  ======================================  ===========================================================
    fused     our decoder on fused weights            rows packed end to end, our attention, our head
    packed    the model's layers, our attention       as in fused
              over our KV cache
    plain     the model's own forward and cache       rows padded to one length, the model's own forward and head
    ========  ======================================  ===========================================================

    Attributes:
        name: name of the implementation: fused, packed or plain.
        left_pads: only for the plain path: whether contexts of different lengths are left-padded and decoded together.
            If False, only contexts of equal length are decoded together, without a mask, because some models ignore
            masks.
        keeps: whether the sampler reuses a rollout's KV cache between turns. If False, the whole context is prefilled
            in every turn.
        compiled: only for the fused and packed paths: whether the LM head is compiled (option ``learn.compile``).
    """

    name: PathName
    left_pads: bool = True
    keeps: bool = True
    compiled: bool = False

    def __str__(self) -> str:
        return f"the {self.name} path" + ("" if self.left_pads else " with contexts of one length at a time")


PACKED = ComputePath("packed")
