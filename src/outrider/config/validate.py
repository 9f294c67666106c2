"""The options of ``outrider validate``: a task, and the thresholds for near duplicates and rejected answers."""

from __future__ import annotations

from pydantic import Field

from outrider.config.recipe import AnyTask
from outrider.config.train import EvaluateOptions
from outrider.model.options import PolicyOptions
from outrider.options import Options


class Validate(Options):
    """A task to check, and the thresholds for the checks of its data."""

    task: AnyTask
    model: str | None = Field(
        None,
        min_length=1,
        description="model whose tokenizer counts the tokens of prompts; null: skip the check of prompt lengths",
    )
    policy: PolicyOptions = Field(
        default_factory=PolicyOptions,
        description="prompt format, such as the chat template and system message, used when counting prompt tokens",
    )
    max_tokens: int = Field(
        1,
        ge=1,
        description="maximum response length in tokens; every prompt must leave this much room in the model's context",
    )
    step_problems: int | None = Field(
        None,
        ge=1,
        description=(
            "planned number of problems per training step; validation fails if the task has fewer training problems; "
            "null: require at least one training problem"
        ),
    )
    evaluate: EvaluateOptions | None = Field(
        None,
        description=(
            "settings of the evaluation you plan to run, used to check that the task has enough held-out problems; "
            "null: skip this check"
        ),
    )
    problems: int = Field(
        1000,
        ge=1,
        description=(
            "number of problems to check in each split (training and held-out), if the task generates an endless "
            "stream of problems"
        ),
    )
    ngram: int = Field(
        5,
        ge=1,
        description=(
            "length n of the n-grams, counted in words, numbers and symbols; texts that share many n-grams count as "
            "near duplicates"
        ),
    )
    near: float = Field(
        0.6,
        gt=0,
        le=1,
        description=(
            "minimum Jaccard similarity (0 to 1) of two texts' n-grams at which the texts count as near duplicates"
        ),
    )
    rejected: float = Field(
        0.005,
        ge=0,
        le=1,
        description=(
            "maximum fraction of gold answers that the verifier may reject; validation fails above this fraction"
        ),
    )
