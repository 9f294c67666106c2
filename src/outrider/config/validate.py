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
        default_factory=PolicyOptions, description="chat template and system message with which prompts are written"
    )
    max_tokens: int = Field(
        1, ge=1, description="response tokens that must fit into the model's context after the prompt"
    )
    step_problems: int | None = Field(
        None, ge=1, description="problems per training step, to check that the task has enough; null: at least one"
    )
    evaluate: EvaluateOptions | None = Field(
        None, description="planned evaluation, to check that the task has enough held-out problems; null: no such check"
    )
    problems: int = Field(
        1000, ge=1, description="number of problems to check per split, if the task's problems are endless"
    )
    ngram: int = Field(
        5, ge=1, description="n of the n-grams, over words, numbers and symbols, that find near duplicates"
    )
    near: float = Field(
        0.6, gt=0, le=1, description="minimum Jaccard similarity of two texts' n-grams for near duplicates"
    )
    rejected: float = Field(
        0.005,
        ge=0,
        le=1,
        description="maximum fraction of gold answers that the verifier may reject before validation fails",
    )
