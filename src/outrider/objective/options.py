"""The options of the loss and its components."""

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

    coef: float = Field(
        0.0,
        ge=0,
        strict=True,
        description="coefficient of the KL penalty in the loss; 0: no penalty and no reference model",
    )
    estimator: Annotated[KlEstimator, ComponentOf(KL_ESTIMATORS, "KL estimator", KlEstimator, bare=True)] = Field(
        default_factory=K3,
        description="estimator of the KL: k1, k2 or k3, which differ in their gradients (see objective/kl.py)",
    )
    mask_without_signal: bool = Field(
        False, description="whether to drop the KL penalty of groups whose advantages are all zero"
    )
    reset_every: int | None = Field(
        None,
        ge=1,
        description=(
            "training steps between resets, which make the policy the new reference and clear the optimizer "
            "state; null: never"
        ),
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
    """The parts of the loss. The default is PPO's clipped token ratio with a token mean, and no other term.

    >>> ObjectiveOptions(surrogate={"clip": [0.2, 0.28]}, aggregate="sequence_mean", kl=0.001).kl.estimator
    K3()
    """

    surrogate: Annotated[Surrogate, ComponentOf(SURROGATES, "surrogate", Surrogate)] = Field(
        default_factory=Clip, description="policy loss, such as PPO's clipped objective"
    )
    select: Annotated[Selection, ComponentOf(SELECTIONS, "token selection", Selection)] | None = Field(
        None,
        description=(
            "selection of tokens in each optimizer batch, to exclude them or to change their loss; null: no selection"
        ),
    )
    kl: Kl = Field(default_factory=Kl, description="options of the KL penalty towards a reference model")
    entropy: EntropyOptions = Field(
        default_factory=EntropyOptions, description="options of the entropy bonus in the loss"
    )
    correction: Annotated[Correction, ComponentOf(CORRECTIONS, "correction", Correction)] | None = Field(
        None,
        description=(
            "correction for probabilities that differ between sampler and learner; null: use the sampler's "
            "log-probabilities as old ones"
        ),
    )
    aggregate: Annotated[Aggregate, ComponentOf(AGGREGATES, "way to aggregate", Aggregate)] = Field(
        default_factory=TokenMean, description="aggregation of token losses, which sets the denominator of their sum"
    )
    streams: dict[str, Annotated[float, Field(ge=0)]] = Field(
        {"main": 1.0},
        min_length=1,
        description="weight of each loss stream in the total loss, including its KL and entropy terms",
    )
    prefix: PrefixPolicy = Field(
        "mask",
        description=(
            "training of prefix tokens that branches share: once, with the parent's advantage (mask) or the "
            "mean advantage over all branches (count_once), or in every branch (repeat)"
        ),
    )

    @model_validator(mode="after")
    def _tokens_can_be_excluded(self) -> ObjectiveOptions:
        masked = self.correction is not None and self.correction.leaves_out
        if self.surrogate.per_response and (masked or (self.select is not None and self.select.leaves_out)):
            raise ValueError(
                f"{'correction' if masked else 'select'} excludes single tokens, but this surrogate has one ratio "
                "per response, through which these would still be trained: use a surrogate per token (ratio: "
                "sequence_token has one gradient per token)"
            )
        return self
