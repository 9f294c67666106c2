"""The options of the training loop: the length of training, evaluations and checkpoints. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from outrider.config.tracking import TrackingOptions
from outrider.options import Options


class TrainOptions(Options):
    """The length of a run, and how often the run evaluates the policy and saves checkpoints. A run ends when it reaches
    the first of its limits."""

    problems: int = Field(32, ge=1, description="number of problems per training step")
    steps: int | None = Field(None, ge=0, description="maximum number of training steps; null: no limit")
    tokens: int | None = Field(
        1_600_000, ge=1, description="maximum number of tokens to generate in training; null: no limit"
    )
    seconds: float | None = Field(
        None,
        gt=0,
        description="maximum training time in seconds, not counting evaluations and checkpoint saving; null: no limit",
    )
    evaluate_every: int = Field(
        0,
        ge=0,
        description="number of training steps between evaluations; 0: no regular evaluations during training",
    )
    evaluate_at: list[Annotated[float, Field(gt=0, lt=1)]] = Field(
        [],
        description=(
            "fractions of the run at which to run an extra evaluation, such as 0.5 for halfway; in a run with several"
            " limits, 0.5 is reached when half of any limit is used up"
        ),
    )
    save_every: int = Field(20, ge=1, description="number of training steps between checkpoints")
    keep: int = Field(2, ge=1, description="number of most recent checkpoints to keep; older checkpoints are deleted")
    trackers: list[Literal["tensorboard", "wandb", "trackio"]] = Field(
        ["tensorboard"],
        description="experiment trackers to which metrics are logged, in addition to the run folder's metrics.jsonl",
    )
    tracking: TrackingOptions = Field(
        default_factory=TrackingOptions,
        description="settings for the experiment trackers: project, run name, tags and logged rollout tables",
    )
    lag: Literal[0, 1] = Field(
        0,
        description=(
            "number of training steps by which the sampling weights lag behind the trained weights; 0: sampling waits "
            "for the update of the previous step; 1: sampling runs during that update (only with vLLM servers or on a "
            "CPU)"
        ),
    )
    ranks: int = Field(
        0,
        ge=0,
        description=(
            "number of training processes; 0: one process if the machine has a GPU, otherwise one process per CPU core "
            "(per two cores if sampling runs in separate processes)"
        ),
    )

    @model_validator(mode="after")
    def _some_limit(self) -> TrainOptions:
        if self.steps is None and self.tokens is None and self.seconds is None:
            raise ValueError("one of steps, tokens and seconds must be set, or the run never ends")
        return self


EVALUATED_TOGETHER = 100
"""Number of problems that an evaluation samples together. This number is large enough to fill decoding batches, and
small enough to gather the responses over ranks at once."""


class EvaluateOptions(Options):
    """The options for evaluating a policy."""

    problems: int = Field(300, ge=1, description="number of held-out problems to evaluate on")
    skip: int = Field(
        0, ge=0, description="number of held-out problems to skip; the evaluation uses the problems after them"
    )
    n: int = Field(64, ge=1, description="number of responses to sample per problem")
    greedy: bool = Field(True, description="whether to also generate one greedy (temperature 0) response per problem")
    bootstrap: int = Field(
        2000,
        ge=0,
        description=(
            "number of bootstrap resamples of the problems, used to compute confidence intervals; 0: no confidence "
            "intervals"
        ),
    )
    seed: int = Field(
        0,
        ge=0,
        description=(
            "random seed for sampling responses and for the bootstrap; runs that you compare should use the same seed"
        ),
    )
    before: bool = Field(True, description="whether to evaluate before the first training step")
    after: bool = Field(True, description="whether to evaluate after the last training step")
