"""Tokens in training: the ratio at the last update, and whether a clip took its gradient."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class TrainedToken(NamedTuple):
    """A token in the forward pass of its rollout's last update.

    Attributes:
        ratio: of the token's probability there to that with which it was sampled.
        clipped: whether the recipe's clip took its gradient; None where :func:`clip_of` knows no clip.
    """

    ratio: float
    clipped: bool | None


class ClipBounds(NamedTuple):
    """The bounds of PPO's clip, and whether they hold for each token or for the response."""

    low: float
    high: float
    dual: float
    per_token: bool

    def takes(self, ratio: float, advantage: float) -> bool:
        """Whether a token has no gradient, as the marks of :class:`outrider.objective.clip.Clip` say."""
        if advantage > 0:
            return ratio > self.high
        return advantage < 0 and (ratio < self.low or ratio > self.dual)


def clip_of(config: Mapping[str, Any]) -> ClipBounds | None:
    """The clip of a run's configuration; None of another surrogate, and of the earlier forms of versions before 0.2.

    None too where training clips another ratio than the recorded one: a correction takes the ratio to the learner's own
    log-probabilities instead of the sampler's, and the prefix policy ``repeat`` takes a response's ratio over its whole
    path.
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
    """One for each own token; None for an observed one, and for all where the rollout was in no update.

    At the level of the response the ratio of the clip is the geometric mean over the rollout's own tokens.
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
