"""Which code computes a policy: fused and packed are ours, plain is the model's own. Imports no torch."""

from __future__ import annotations

from typing import Literal, NamedTuple

PathName = Literal["fused", "packed", "plain"]


class ComputePath(NamedTuple):
    """How sampler and learner compute one policy; chosen by :func:`outrider.sample.ready.ready`.

    ========  ======================================  ===========================================================
    name      sampler                                 learner
    ========  ======================================  ===========================================================
    fused     our decoder on fused weights            rows packed end to end, our attention, our head
    packed    the model's layers, our attention       the same
              over our key-value store
    plain     the model's own forward and cache       rows padded to one length, the model's own forward and head
    ========  ======================================  ===========================================================

    Attributes:
        name: which of the three.
        left_pads: on the plain path, whether contexts of several lengths are decoded together, padded on the left as
            ``generate`` does; False decodes contexts of one length at a time, which needs no mask and serves models
            that forget theirs.
        keeps: whether the sampler reuses its KV cache between turns; False prefills every turn.
    """

    name: PathName
    left_pads: bool = True
    keeps: bool = True

    def __str__(self) -> str:
        return f"the {self.name} path" + ("" if self.left_pads else " with contexts of one length at a time")


PACKED = ComputePath("packed")
