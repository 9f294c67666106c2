"""Computes each token's importance ratio at the last update, and whether the clip removed the token's gradient."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class TrainedToken(NamedTuple):
    """A token's importance ratio at the last policy update that used its rollout, and the effect of the clip.

    Attributes:
        ratio: the token's probability at this update, divided by its probability at sampling.
        clipped: whether the recipe's clip removed the token's gradient; None if :func:`clip_of` returns None.
    """

    ratio: float
    clipped: bool | None


class ClipBounds(NamedTuple):
    """The bounds of PPO's clip. ``per_token`` is True if the bounds apply to each token's ratio, and False if they
    apply to the response's ratio."""

    low: float
    high: float
    dual: float
    per_token: bool

    def takes(self, ratio: float, advantage: float) -> bool:
        """Return whether the clip removes a token's gradient; see :class:`outrider.objective.clip.Clip`."""
        if advantage > 0:
            return ratio > self.high
        return advantage < 0 and (ratio < self.low or ratio > self.dual)


def clip_of(config: Mapping[str, Any]) -> ClipBounds | None:
    """Return the clip bounds in a run's configuration; None if the surrogate has no clip, or if Outrider 0.1 wrote the
    configuration.

    The result is also None if training clips another ratio than the run records. With an off-policy correction, the
    clipped ratio's denominator is the learner's probability, not the sampler's. With ``objective.prefix: repeat``, the
    ratio of a whole response also includes the tokens that it copied from another rollout.
    """
    objective = config.get("objective")
    if not isinstance(objective, Mapping) or objective.get("correction") is not None:
        return None
    surrogate = objective.get("surrogate")
    clip = surrogate.get("clip") if isinstance(surrogate, Mapping) else None
    if not isinstance(clip, Mapping) or not {"low", "high", "ratio"} <= clip.keys():
        return None
    if clip["ratio"] != "token" and objective.get("prefix") == "repeat":
        return None
    dual = clip.get("dual")
    return ClipBounds(1 - clip["low"], 1 + clip["high"], math.inf if dual is None else dual, clip["ratio"] == "token")


def trained_tokens(
    log_ratios: Sequence[float] | None,
    sampled: Sequence[bool],
    advantages: Sequence[float | None],
    clip: ClipBounds | None,
) -> list[TrainedToken | None]:
    """Return each token's importance ratio at the last policy update that used the rollout, and whether it was clipped.

    The entry is None for tokens from an environment, and for all tokens if no update used the rollout. If the clip
    applies to the ratio of the whole response, that ratio is the geometric mean of its sampled tokens' ratios.
    """
    if log_ratios is None:
        return [None] * len(sampled)
    own = [value for value, mine in zip(log_ratios, sampled, strict=True) if mine and math.isfinite(value)]
    mean = math.exp(sum(own) / len(own)) if own else math.nan

    def one(log_ratio: float, advantage: float | None) -> TrainedToken | None:
        if not math.isfinite(log_ratio):
            return None
        ratio = math.exp(min(log_ratio, 700.0))
        if clip is None or advantage is None:
            return TrainedToken(ratio, None)
        return TrainedToken(ratio, clip.takes(ratio if clip.per_token else mean, advantage))

    return [
        one(log_ratio, advantage) if mine else None
        for log_ratio, mine, advantage in zip(log_ratios, sampled, advantages, strict=True)
    ]
