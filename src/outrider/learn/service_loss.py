"""Built-in losses of training services. The module does not import torch."""

from __future__ import annotations

from typing import NamedTuple

from outrider.objective import Cispo, Clip, Unclipped
from outrider.objective.options import ObjectiveOptions


class NamedLoss(NamedTuple):
    """A built-in loss of a Tinker service, with its parameters."""

    name: str
    config: dict[str, float] | None = None


def named_loss(options: ObjectiveOptions) -> NamedLoss | None:
    """Return the Tinker protocol's built-in loss that has the same gradient as an objective; None if there is no such
    loss.

    Options that only multiply advantages, such as importance weights or a rule that excludes tokens, do not affect the
    choice of the loss. Outrider's objective bounds log ratios to ±20; services do not bound log ratios.

    >>> named_loss(ObjectiveOptions(surrogate={"clip": [0.2, 0.28]}))
    NamedLoss(name='ppo', config={'clip_low_threshold': 0.8, 'clip_high_threshold': 1.28})
    >>> named_loss(ObjectiveOptions(surrogate={"clip": {"ratio": "sequence"}})) is None
    True
    """
    if (options.select is not None and options.select.penalises) or options.kl.coef > 0:
        return None
    match options.surrogate:
        case Clip(dual=None, ratio="token") as clip:
            return NamedLoss("ppo", _bounds(1 - clip.low, 1 + clip.high))
        case Cispo() as cispo:
            return NamedLoss("cispo", _bounds(0.0 if cispo.low is None else 1 - cispo.low, 1 + cispo.high))
        case Unclipped(ratio="token"):
            return NamedLoss("importance_sampling")
    return None


def _bounds(low: float, high: float) -> dict[str, float]:
    return {"clip_low_threshold": low, "clip_high_threshold": high}
