"""The options of ``outrider evaluate``: the model, and those sections of a recipe that an evaluation needs."""

from __future__ import annotations

from pydantic import Field, model_validator

from outrider.config.recipe import AnyTask, refuse_plain_messages
from outrider.config.train import EvaluateOptions
from outrider.model.options import PolicyOptions
from outrider.options import Options
from outrider.sample.options import SampleOptions


class Evaluate(Options):
    """A model to evaluate, a task, and the options for sampling and evaluation."""

    model: str = Field(
        min_length=1,
        description=(
            "model to evaluate: base:<name> (shipped with Outrider), a folder, a GGUF file, package:<name> (GGUF file "
            "in a Python package), or a Hugging Face Hub name"
        ),
    )
    policy: PolicyOptions = Field(default_factory=PolicyOptions)
    task: AnyTask
    sample: SampleOptions = Field(default_factory=SampleOptions)
    evaluate: EvaluateOptions = Field(default_factory=EvaluateOptions)

    @model_validator(mode="after")
    def _prompts_can_be_written(self) -> Evaluate:
        refuse_plain_messages(self.task, self.policy)
        return self
