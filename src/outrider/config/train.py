"""The options of the training loop: its length, and how often it evaluates and saves. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from outrider.config.tracking import TrackingOptions
from outrider.options import Options


class TrainOptions(Options):
    """The length of a run, and how often the run evaluates and saves. A run ends at the first limit that it reaches."""

    problems: int = Field(32, ge=1, description="number of problems per training step")
    steps: int | None = Field(None, ge=0, description="maximum training steps; null: no limit")
    tokens: int | None = Field(1_600_000, ge=1, description="maximum generated tokens; null: no limit")
    seconds: float | None = Field(
        None, gt=0, description="maximum training time in seconds, without evaluation and saving; null: no limit"
    )
    evaluate_every: int = Field(
        0, ge=0, description="training steps between evaluations; 0: only before and after training"
    )
    evaluate_at: list[Annotated[float, Field(gt=0, lt=1)]] = Field(
        [],
        description=(
            "fractions of the training budget; an additional evaluation follows the first step that reaches "
            "each fraction"
        ),
    )
    save_every: int = Field(20, ge=1, description="training steps between checkpoints")
    keep: int = Field(2, ge=1, description="number of latest checkpoints to keep")
    trackers: list[Literal["tensorboard", "wandb", "trackio"]] = Field(
        ["tensorboard"], description="experiment trackers, in addition to metrics.jsonl"
    )
    tracking: TrackingOptions = Field(
        default_factory=TrackingOptions, description="run name and rollout tables in the experiment trackers"
    )
    lag: Literal[0, 1] = Field(
        0,
        description=(
            "age in training steps of the weights that sample a batch; 1: the next batch is sampled during "
            "the update (by vLLM servers, or on a CPU by another process)"
        ),
    )
    ranks: int = Field(
        0, ge=0, description="number of training processes; 0: one process with a GPU, otherwise one per CPU core"
    )

    @model_validator(mode="after")
    def _some_limit(self) -> TrainOptions:
        if self.steps is None and self.tokens is None and self.seconds is None:
            raise ValueError("one of steps, tokens and seconds must be set, or the run never ends")
        return self


EVALUATED_TOGETHER = 100
"""Number of problems that an evaluation samples together, which is enough to fill decoding batches, and few enough for
one gather over ranks."""


class EvaluateOptions(Options):
    """The options of a policy's evaluation."""

    problems: int = Field(300, ge=1, description="number of held-out problems to evaluate on")
    skip: int = Field(0, ge=0, description="number of held-out problems to skip before the evaluated ones")
    n: int = Field(64, ge=1, description="sampled responses per problem")
    greedy: bool = Field(True, description="whether to generate one greedy response per problem as well")
    bootstrap: int = Field(
        2000,
        ge=0,
        description="number of bootstrap resamples of the problems for confidence intervals; 0: no intervals",
    )
    seed: int = Field(
        0, ge=0, description="random seed for sampling and bootstrap; use the same seed for all runs to be compared"
    )
    before: bool = Field(True, description="whether to evaluate before the first training step")
    after: bool = Field(True, description="whether to evaluate after the last training step")
