"""The options of ``outrider analyse``. This module does not import PyTorch."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from outrider.config.recipe import AnyTask
from outrider.config.train import EvaluateOptions
from outrider.options import Options
from outrider.sample.options import SampleOptions

WORDS = ("last", "all")


class RolloutSelection(Options):
    """Options that select which rollouts of a run to analyse."""

    split: str = Field(
        "train",
        min_length=1,
        description=(
            "rollouts to analyse: training (train), sampled evaluation (evaluate) or greedy evaluation (greedy)"
        ),
    )
    steps: str = Field(
        "last", description="training steps to analyse: last, all, or numbers and ranges such as 1,50,90-105"
    )
    limit: int | None = Field(
        None,
        ge=1,
        description="maximum rollouts to analyse per training step, spread evenly over the step; null: no limit",
    )

    @field_validator("steps")
    @classmethod
    def _steps_are_numbers(cls, steps: str) -> str:
        if steps not in WORDS:
            step_ranges(steps)
        return steps


class TokensAnalysis(RolloutSelection):
    """Options of ``outrider analyse tokens``, which computes values of every token, such as its entropy, under one
    policy."""

    model: str = Field(
        "trained",
        min_length=1,
        description=(
            "model to run: trained (final), start (initial), step-<n> (checkpoint), or any model with the "
            "same vocabulary"
        ),
    )
    temperature: float = Field(1.0, gt=0, description="softmax temperature of the analysed distributions")
    masses: list[Annotated[float, Field(gt=0, lt=1)]] = Field(
        [0.95], description="top-p probability masses; the nucleus size in tokens is recorded for each mass"
    )
    micro_tokens: int = Field(4096, ge=1, description="maximum tokens per forward pass")


class Shift(RolloutSelection):
    """Options of ``outrider analyse shift``, which compares the probabilities of the same tokens under two policies."""

    before: str = Field(
        "start",
        min_length=1,
        description=(
            "first model of the comparison: start (initial), trained (final), step-<n> (checkpoint), or any "
            "model with the same vocabulary"
        ),
    )
    after: str = Field("trained", min_length=1)
    temperature: float = Field(1.0, gt=0, description="softmax temperature of the analysed distributions")
    micro_tokens: int = Field(4096, ge=1, description="maximum tokens per forward pass")


class Intervene(RolloutSelection):
    """Options of ``outrider analyse intervene``, which measures how success changes if a token is replaced."""

    model: str = Field(
        "trained",
        min_length=1,
        description=(
            "model to run: trained (final), start (initial), step-<n> (checkpoint), or any model with the "
            "same vocabulary"
        ),
    )
    positions: int = Field(
        5,
        ge=1,
        description="number of token positions to test per response, one in each equally long section of the response",
    )
    choose: Literal["entropy", "random"] = Field(
        "entropy",
        description=(
            "token to test in each section of a response: the one with the highest entropy (entropy), or a "
            "random one (random)"
        ),
    )
    k: int = Field(
        8,
        ge=1,
        description="number of continuations to sample after the original token, and again after its replacement",
    )
    seed: int = Field(0, ge=0, description="random seed for the continuations and for random positions")
    micro_tokens: int = Field(4096, ge=1, description="maximum tokens per forward pass")
    task: AnyTask
    sample: SampleOptions = Field(default_factory=SampleOptions)
    evaluate: EvaluateOptions = Field(default_factory=EvaluateOptions)

    @model_validator(mode="after")
    def _continuations_differ(self) -> Self:
        if self.sample.temperature == 0 and self.k > 1:
            raise ValueError(
                f"sample.temperature is 0, so the {self.k} continuations of a token would be identical (use k=1)"
            )
        return self


def step_ranges(steps: str) -> list[range]:
    """Parse a comma-separated list of steps and ranges of steps.

    Raises:
        ValueError: the text is not a list of steps.

    >>> step_ranges("1,50,90-105")
    [range(1, 2), range(50, 51), range(90, 106)]
    """
    ranges = []
    for part in steps.split(","):
        first, dash, last = (word.strip() for word in part.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"{steps!r} is not last, all, or numbers and ranges such as 1,50,90-105")
        ranges.append(range(int(first), int(last or first) + 1))
    return ranges
