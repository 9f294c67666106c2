"""What a recipe can say about the optimizer. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from outrider.options import Options


class LearnOptions(Options):
    """AdamW, its schedule, and how a step's rollouts are cut into optimizer batches and micro-batches."""

    lr: float = Field(1e-6, gt=0, description="peak learning rate")
    warmup_steps: int = Field(0, ge=0, description="optimizer steps of linear warm-up")
    schedule: Literal["constant", "cosine", "linear"] = Field("constant", description="after the warm-up")
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.999)
    weight_decay: float = Field(0.0, ge=0)
    clip_norm: float = Field(1.0, gt=0, description="largest gradient norm")
    minibatches: int = Field(1, ge=1, description="optimizer batches per step, cut by problems")
    epochs: int = Field(1, ge=1, description="passes over a step's rollouts")
    micro_tokens: int = Field(16_384, ge=1, description="most tokens of one forward and backward pass")
    gradient_checkpointing: bool = Field(False, description="keep each layer's input alone, and compute the rest twice")


class SftOptions(Options):
    """Fresh problems every step, so an epoch never ends. Stops by steps: competence follows steps, not seconds."""

    steps: int = Field(6339, ge=1)
    problems: int = Field(24, ge=1, description="per step")
    seed: int = Field(0, ge=0, description="of the first weights; the problems' is the task's own")
    learn: LearnOptions = Field(
        default_factory=lambda: LearnOptions(
            lr=2e-3, warmup_steps=50, schedule="cosine", betas=(0.9, 0.98), weight_decay=0.01, clip_norm=1.0
        )
    )
