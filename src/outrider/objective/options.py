"""The options of the loss, put together from its components."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator

from outrider.components import ComponentOf
from outrider.credit.paths import PrefixPolicy
from outrider.objective import (
    AGGREGATES,
    CORRECTIONS,
    K3,
    KL_ESTIMATORS,
    SELECTIONS,
    SURROGATES,
    Aggregate,
    Clip,
    Correction,
    KlEstimator,
    Selection,
    Surrogate,
    TokenMean,
)
from outrider.objective.entropy import EntropyOptions
from outrider.options import Options


class Kl(Options):
    """The KL to a reference model; short form ``kl: 0.001``."""

    coef: float = Field(0.0, ge=0, strict=True, description="0 keeps no reference model")
    estimator: Annotated[KlEstimator, ComponentOf(KL_ESTIMATORS, "KL estimator", KlEstimator, bare=True)] = Field(
        default_factory=K3, description="each has its own gradient: see objective/kl.py"
    )
    mask_without_signal: bool = Field(False, description="groups whose advantages are all zero are not pulled back")
    reset_every: int | None = Field(
        None, ge=1, description="steps after which the policy becomes the reference and the optimizer starts anew"
    )

    @model_validator(mode="before")
    @classmethod
    def _number(cls, given: Any) -> Any:
        return {"coef": given} if not isinstance(given, (Mapping, Kl)) else given

    @model_validator(mode="after")
    def _resets_something(self) -> Kl:
        if self.reset_every is not None and self.coef == 0:
            raise ValueError(f"reset_every is {self.reset_every}, but with coef 0 there is no reference to reset")
        return self


class ObjectiveOptions(Options):
    """The loss, part by part. The defaults are PPO's clip of token ratios, a token mean, and nothing else.

    >>> ObjectiveOptions(surrogate={"clip": [0.2, 0.28]}, aggregate="sequence_mean", kl=0.001).kl.estimator
    K3()
    """

    surrogate: Annotated[Surrogate, ComponentOf(SURROGATES, "surrogate", Surrogate)] = Field(
        default_factory=Clip, description="the function whose gradient is followed"
    )
    select: Annotated[Selection, ComponentOf(SELECTIONS, "token selection", Selection)] | None = Field(
        None, description="tokens that are treated otherwise, chosen over the whole optimizer batch"
    )
    kl: Kl = Field(default_factory=Kl, description="a KL to a reference model")
    entropy: EntropyOptions = Field(default_factory=EntropyOptions, description="a bonus for the policy's entropy")
    correction: Annotated[Correction, ComponentOf(CORRECTIONS, "correction", Correction)] | None = Field(
        None, description="null: old log-probabilities are the sampler's"
    )
    aggregate: Annotated[Aggregate, ComponentOf(AGGREGATES, "way to aggregate", Aggregate)] = Field(
        default_factory=TokenMean, description="the denominator of every token"
    )
    streams: dict[str, Annotated[float, Field(ge=0)]] = Field(
        {"main": 1.0}, min_length=1, description="weight (lambda) of each loss stream, its KL and its entropy included"
    )
    prefix: PrefixPolicy = Field(
        "mask",
        description="a branch's prefix: its parent's row alone trains it, with the parent's advantage (mask) or the "
        "mean over all that go through it (count_once), or every branch trains it again (repeat)",
    )

    @model_validator(mode="after")
    def _tokens_can_be_left_out(self) -> ObjectiveOptions:
        masked = self.correction is not None and self.correction.leaves_out
        if self.surrogate.per_response and (masked or (self.select is not None and self.select.leaves_out)):
            raise ValueError(
                f"{'correction' if masked else 'select'} leaves single tokens out, but this surrogate has one ratio "
                "for a whole response, through which they would be trained all the same (ratio: sequence_token has "
                "one gradient per token)"
            )
        return self
