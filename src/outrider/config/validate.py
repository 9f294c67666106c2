"""The options of ``outrider validate``: a task, and the thresholds for near duplicates and rejected answers."""

from __future__ import annotations

from pydantic import Field

from outrider.config.recipe import AnyTask
from outrider.config.train import EvaluateOptions
from outrider.model.options import PolicyOptions
from outrider.options import Options


class Validate(Options):
    """A task to check, and how strictly."""

    task: AnyTask
    model: str | None = Field(None, min_length=1, description="whose tokenizer measures the prompts; null: none")
    policy: PolicyOptions = Field(default_factory=PolicyOptions, description="how prompts are put to the model")
    max_tokens: int = Field(1, ge=1, description="response tokens that must fit the model's context behind a prompt")
    step_problems: int | None = Field(None, ge=1, description="problems of a training step; null: nothing is trained")
    evaluate: EvaluateOptions | None = Field(None, description="which held-out problems are measured; null: none")
    problems: int = Field(1000, ge=1, description="problems of each side, where the task has no end of them")
    ngram: int = Field(5, ge=1, description="tokens of the n-grams by which near duplicates are found")
    near: float = Field(0.6, gt=0, le=1, description="Jaccard similarity of n-grams from which two texts are near")
    rejected: float = Field(0.005, ge=0, le=1, description="share of rejected right answers that still passes")
