"""The options of ``outrider validate``: a task, and the thresholds for near duplicates and rejected answers."""

from __future__ import annotations

from pydantic import Field

from outrider.config.recipe import AnyTask
from outrider.config.train import EvaluateOptions
from outrider.model.options import PolicyOptions
from outrider.options import Options


class Validate(Options):
    """A task whose data is checked, and the thresholds of the checks."""

    task: AnyTask
    model: str | None = Field(
        None,
        min_length=1,
        description="model whose tokenizer counts prompt tokens; null: prompt lengths are not checked",
    )
    policy: PolicyOptions = Field(
        default_factory=PolicyOptions, description="chat template and system message for the prompts"
    )
    max_tokens: int = Field(
        1, ge=1, description="response tokens that must fit into the model's context after a prompt"
    )
    step_problems: int | None = Field(None, ge=1, description="problems per training step; null: no training")
    evaluate: EvaluateOptions | None = Field(None, description="held-out problems of an evaluation; null: none")
    problems: int = Field(1000, ge=1, description="problems to check per split of a task with endless problems")
    ngram: int = Field(5, ge=1, description="n of the token n-grams by which near duplicates are found")
    near: float = Field(
        0.6, gt=0, le=1, description="Jaccard similarity of n-grams above which two texts are near duplicates"
    )
    rejected: float = Field(0.005, ge=0, le=1, description="maximum share of gold answers that the verifier may reject")
