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
    """The options of the KL term, which penalises the KL to a reference model; short form ``kl: 0.001``."""

    coef: float = Field(
        0.0,
        ge=0,
        strict=True,
        description="coefficient of the KL penalty in the loss; 0: no KL penalty, and no reference model is loaded",
    )
    estimator: Annotated[KlEstimator, ComponentOf(KL_ESTIMATORS, "KL estimator", KlEstimator, bare=True)] = Field(
        default_factory=K3,
        description=(
            "estimator of the KL divergence per token, with d the reference's log-probability minus the policy's: -d "
            "(k1), d²/2 (k2), or exp(d) - d - 1 (k3)"
        ),
    )
    mask_without_signal: bool = Field(
        False, description="whether to omit the KL penalty in groups whose advantages are all zero"
    )
    reset_every: int | None = Field(
        None,
        ge=1,
        description=(
            "number of training steps after which the current policy becomes the reference model and the optimizer "
            "state is cleared; null: never"
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
    """The parts of the loss. The default is PPO's clipped objective with a ratio per token, averaged over tokens,
    without any other term.

    >>> ObjectiveOptions(surrogate={"clip": [0.2, 0.28]}, aggregate="sequence_mean", kl=0.001).kl.estimator
    K3()
    """

    surrogate: Annotated[Surrogate, ComponentOf(SURROGATES, "surrogate", Surrogate)] = Field(
        default_factory=Clip, description="policy loss, such as PPO's clipped objective (clip)"
    )
    select: Annotated[Selection, ComponentOf(SELECTIONS, "token selection", Selection)] | None = Field(
        None,
        description=(
            "rule that selects tokens in each optimizer batch and either excludes them from the loss or changes their "
            "loss; null: no selection"
        ),
    )
    kl: Kl = Field(
        default_factory=Kl, description="settings for the KL penalty that keeps the policy close to a reference model"
    )
    entropy: EntropyOptions = Field(
        default_factory=EntropyOptions, description="settings for the entropy bonus in the loss"
    )
    correction: Annotated[Correction, ComponentOf(CORRECTIONS, "correction", Correction)] | None = Field(
        None,
        description=(
            "off-policy correction for cases where sampler and learner compute different probabilities; null: use the "
            "sampler's log-probabilities in the importance ratio"
        ),
    )
    aggregate: Annotated[Aggregate, ComponentOf(AGGREGATES, "way to aggregate", Aggregate)] = Field(
        default_factory=TokenMean,
        description=(
            "method of averaging token losses, such as one mean over all tokens, or a mean within each response "
            "followed by a mean over responses"
        ),
    )
    streams: dict[str, Annotated[float, Field(ge=0)]] = Field(
        {"main": 1.0},
        min_length=1,
        description=(
            "loss weight of each named set of rollouts, such as main (ordinary rollouts) and branch (rollouts that "
            "branch off others); the weight scales all loss terms, including KL and entropy"
        ),
    )
    prefix: PrefixPolicy = Field(
        "mask",
        description=(
            "training of the tokens that a rollout shares with its branches: once, with the rollout's own advantage "
            "(mask); once, with the mean advantage of the rollout and its branches (count_once); or once in the "
            "rollout and once in every branch, each time with that response's advantage (repeat)"
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
