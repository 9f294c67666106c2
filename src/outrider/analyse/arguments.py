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
    """Options that select the rollouts to analyse in a run."""

    split: str = Field(
        "train",
        min_length=1,
        description=(
            "origin of the rollouts to analyse: training (train), evaluation with sampling (evaluate), or greedy "
            "evaluation (greedy)"
        ),
    )
    steps: str = Field(
        "last",
        description=(
            "training steps whose rollouts are analysed: the last step (last), every step (all), or step numbers and "
            "ranges such as 1,50,90-105"
        ),
    )
    limit: int | None = Field(
        None,
        ge=1,
        description=(
            "maximum number of rollouts to analyse per training step; if a step has more, evenly spaced rollouts are "
            "chosen; null: all rollouts"
        ),
    )

    @field_validator("steps")
    @classmethod
    def _steps_are_numbers(cls, steps: str) -> str:
        if steps not in WORDS:
            step_ranges(steps)
        return steps


class TokensAnalysis(RolloutSelection):
    """Options of ``outrider analyse tokens``, which computes values such as the entropy for every token under one
    policy."""

    model: str = Field(
        "trained",
        min_length=1,
        description=(
            "model with which the entropy and other values of each token are computed: the run's final model "
            "(trained), its initial model (start), its checkpoint of step n (step-<n>), or any model with the same "
            "vocabulary"
        ),
    )
    temperature: float = Field(
        1.0, gt=0, description="softmax temperature at which the model's token distributions are computed"
    )
    masses: list[Annotated[float, Field(gt=0, lt=1)]] = Field(
        [0.95],
        description=(
            "top-p probability masses; for each mass, the analysis records the smallest number of tokens whose "
            "probabilities add up to at least this mass"
        ),
    )
    micro_tokens: int = Field(
        4096, ge=1, description="maximum number of tokens per forward pass; larger values need more memory"
    )


class Shift(RolloutSelection):
    """Options of ``outrider analyse shift``, which compares the probabilities of the same tokens under two policies."""

    before: str = Field(
        "start",
        min_length=1,
        description=(
            "first of the two compared models: the run's initial model (start), its final model (trained), its "
            "checkpoint of step n (step-<n>), or any model with the same vocabulary"
        ),
    )
    after: str = Field("trained", min_length=1)
    temperature: float = Field(
        1.0, gt=0, description="softmax temperature at which both models' token distributions are computed"
    )
    micro_tokens: int = Field(
        4096, ge=1, description="maximum number of tokens per forward pass; larger values need more memory"
    )


class Intervene(RolloutSelection):
    """Options of ``outrider analyse intervene``, which measures how success changes if a token is replaced."""

    model: str = Field(
        "trained",
        min_length=1,
        description=(
            "model that computes token entropies and samples the continuations: the run's final model (trained), its "
            "initial model (start), its checkpoint of step n (step-<n>), or any model with the same vocabulary"
        ),
    )
    positions: int = Field(
        5,
        ge=1,
        description=(
            "number of token positions to test per response; the response is split into this many equal sections, and "
            "one position is tested in each"
        ),
    )
    choose: Literal["entropy", "random"] = Field(
        "entropy",
        description=(
            "rule that picks the token to test in each section of a response: the highest-entropy token (entropy), or "
            "a random token (random)"
        ),
    )
    k: int = Field(
        8,
        ge=1,
        description=(
            "number of continuations to sample at each tested position for each of two tokens: the original token and "
            "its replacement"
        ),
    )
    seed: int = Field(
        0,
        ge=0,
        description=(
            "random seed for sampling the continuations, and for choosing the tested tokens if they are chosen at "
            "random"
        ),
    )
    micro_tokens: int = Field(
        4096, ge=1, description="maximum number of tokens per forward pass; larger values need more memory"
    )
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
    """Parse a comma-separated list of steps and ranges.

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
