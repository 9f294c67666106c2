"""The engines of a run: the sampler, which generates rollouts, and the learner, which trains the policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator

from outrider.components import ComponentOf
from outrider.learn.options import LEARNER_ENGINES, LearnerEngine, LocalLearning, Tinker
from outrider.options import Options
from outrider.sample.options import SAMPLER_ENGINES, LocalSampling, SamplerEngine, TinkerSampling


class EngineOptions(Options):
    """The sampler and the learner of a run. The two engines can be chosen separately. No other section of a recipe
    depends on the choice.

    A Tinker service is both sampler and learner, and can be written as ``engine: tinker``.
    """

    sampler: Annotated[SamplerEngine, ComponentOf(SAMPLER_ENGINES, "sampler", bare=True)] = Field(
        default_factory=LocalSampling, description="engine that generates rollouts during training and evaluation"
    )
    learner: Annotated[LearnerEngine, ComponentOf(LEARNER_ENGINES, "learner", bare=True)] = Field(
        default_factory=LocalLearning, description="engine that computes gradients and updates the policy's weights"
    )

    @model_validator(mode="before")
    @classmethod
    def _one_for_both(cls, given: Any) -> Any:
        return {"sampler": "tinker", "learner": "tinker"} if given == "tinker" else given

    @model_validator(mode="after")
    def _tinker_is_both(self) -> EngineOptions:
        if isinstance(self.sampler, TinkerSampling) != isinstance(self.learner, Tinker):
            raise ValueError(
                "a Tinker service samples the policy that it trains, and no other: sampler and learner are both tinker "
                "(engine=tinker), or none is"
            )
        return self

    def names(self) -> dict[str, str]:
        """Return the name of each engine that is not local, such as ``{"sampler": "vllm"}``. The engines' options are
        not included.

        >>> EngineOptions().names()
        {}
        """
        sampler = next(name for name, kind in SAMPLER_ENGINES.items() if type(self.sampler) is kind)
        learner = next(name for name, kind in LEARNER_ENGINES.items() if type(self.learner) is kind)
        return {key: name for key, name in (("sampler", sampler), ("learner", learner)) if name != "local"}


def is_local(engine: Any) -> bool:
    """Return whether an ``engine`` section (None if absent) selects sampling in the run's own processes.

    >>> is_local(None), is_local({"sampler": "local"}), is_local({"sampler": {"vllm": {"servers": []}}})
    (True, True, False)
    >>> is_local("tinker")
    False
    """
    if isinstance(engine, EngineOptions):
        return "sampler" not in engine.names()
    if engine == "tinker":
        return False
    sampler = engine.get("sampler", "local") if isinstance(engine, Mapping) else "local"
    return sampler == "local" or (isinstance(sampler, Mapping) and "local" in sampler)
