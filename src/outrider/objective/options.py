"""What a recipe can say about the loss. Imports no torch, so that a recipe can be read without it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from outrider.options import Options

Aggregate = Literal["token_mean", "sequence_mean", "constant"]
Prefix = Literal["mask", "count_once", "repeat"]


class ObjectiveOptions(Options):
    """The policy-gradient loss: ratio, clip, aggregation, KL. Defaults are GRPO's.

    ``aggregate`` is a denominator for each stream, taken over the whole optimizer batch:
    ``token_mean`` the trainable tokens of the stream; ``sequence_mean`` the mean over rollouts of the mean over their
    tokens; ``constant`` the number of rollouts times ``constant_length`` (Dr. GRPO: no length enters).
    """

    clip: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0)]] = Field(
        (0.2, 0.2), description="ratio clip below and above: [1 - low, 1 + high]"
    )
    aggregate: Aggregate = Field("token_mean", description="the denominator of each stream")
    constant_length: int | None = Field(
        None, ge=1, description="tokens per rollout of the constant denominator; null: sample.max_tokens"
    )
    kl: float = Field(0.0, ge=0, description="coefficient of the k3 KL to the reference model; 0 keeps no reference")
    streams: dict[str, Annotated[float, Field(ge=0)]] = Field(
        {"main": 1.0}, min_length=1, description="weight (lambda) of each loss stream"
    )
    prefix: Prefix = Field(
        "mask",
        description="a branch's prefix: only its parent's row trains it (mask), it is one row with its siblings' mean "
        "advantage (count_once), or every branch trains it again (repeat)",
    )
