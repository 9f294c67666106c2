"""What a recipe can say about the loss. Imports no torch, so that a recipe can be read without it.

The formulas stand with the functions that compute them, one idea a file: ``ratio``, ``clip``, ``cispo``, ``gmpo``,
``sapo``, ``select``, ``kl``, ``entropy``, ``correction``, ``weights``. :mod:`outrider.objective.policy_loss` puts them
together and lists every diagnostic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, model_validator

from outrider.credit.paths import PrefixPolicy
from outrider.options import Options
from outrider.pieces import PieceOf

RatioLevel = Literal["token", "sequence", "sequence_token"]
WeightLevel = Literal["token", "sequence", "geometric"]


class Surrogate(Options):
    """What a token gains by its ratio and its advantage: the function whose gradient is followed."""


class _Range(Surrogate):
    """A surrogate with bounds below and above, for which a recipe may write ``[low, high]``."""

    @model_validator(mode="before")
    @classmethod
    def _pair(cls, given: Any) -> Any:
        if not isinstance(given, (list, tuple)):
            return given
        if len(given) != 2:
            raise ValueError(f"a range has two numbers, [low, high], and this one has {len(given)}")
        return {"low": given[0], "high": given[1]}


class Clip(_Range):
    """PPO's clipped ratio; short form ``clip: [0.2, 0.28]``. Function and sources: :mod:`outrider.objective.clip`."""

    low: float = Field(0.2, ge=0, le=1, strict=True, description="ratios count down to 1 - low; 1: no bound")
    high: float = Field(0.2, ge=0, strict=True, description="ratios count up to 1 + high")
    dual: float | None = Field(None, gt=1, description="with a negative advantage, ratios count up to this (PPO's c)")
    ratio: RatioLevel = Field("token", description="of each token, or of the response (GSPO, GSPO-token)")


class Unclipped(Surrogate):
    """The ratio as it is: the plain policy gradient of importance-weighted samples."""

    ratio: RatioLevel = Field("token", description="of each token, or of the response")


class Cispo(_Range):
    """The gradient of every token, weighted by a clipped ratio; short form ``cispo: [null, 4.0]``."""

    low: float | None = Field(None, ge=0, le=1, strict=True, description="weights from 1 - low; null: no bound")
    high: float = Field(4.0, ge=0, strict=True, description="weights up to 1 + high")


class Gmpo(_Range):
    """The geometric mean of a response's clipped ratios; short form ``gmpo: [0.4, 0.4]``."""

    low: float = Field(0.4, ge=0, strict=True, description="log ratios count down to -low")
    high: float = Field(0.4, ge=0, strict=True, description="log ratios count up to +high")


class Sapo(Surrogate):
    """A sigmoid gate in place of a clip."""

    tau_positive: float = Field(1.0, gt=0, description="steepness where the advantage is positive")
    tau_negative: float = Field(1.05, gt=0, description="steepness where it is negative; above the other: more careful")


_Bounded = TypeVar("_Bounded", "ClipCov", "Mask")


def _ordered(piece: _Bounded) -> _Bounded:
    if piece.low > piece.high:
        raise ValueError(f"no value lies in [{piece.low}, {piece.high}]: low is above high")
    return piece


class Selection(Options):
    """Which tokens of an optimizer batch are treated otherwise."""


class Forking(Selection):
    """Only the tokens with the highest entropy keep their policy gradient."""

    share: float = Field(0.2, gt=0, le=1, description="of the trainable tokens of an optimizer batch")


class ClipCov(Selection):
    """A few tokens, drawn from those of high covariance, lose their policy gradient."""

    share: float = Field(2e-4, gt=0, le=1, description="of the trainable tokens of an optimizer batch, at least one")
    low: float = Field(1.0, description="least covariance of a token that may be drawn")
    high: float = Field(5.0, description="largest covariance of such a token")

    @model_validator(mode="after")
    def _some_fit(self) -> ClipCov:
        return _ordered(self)


class KlCov(Selection):
    """The tokens of the highest covariance are held near the policy that sampled them."""

    share: float = Field(2e-3, gt=0, le=1, description="of the trainable tokens of an optimizer batch, at least one")
    coef: float = Field(1.0, gt=0, description="of their distance")


class Kl(Options):
    """The KL to a reference model; short form ``kl: 0.001``."""

    coef: float = Field(0.0, ge=0, strict=True, description="0 keeps no reference model")
    estimator: Literal["k1", "k2", "k3"] = Field("k3", description="each has its own gradient: see objective/kl.py")
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


class Entropy(Options):
    """A bonus for the policy's entropy, constant or steered towards a target."""

    bonus: float = Field(0.0, ge=0, description="coefficient; with a target, the first one")
    target: float | None = Field(None, gt=0, description="nats per token below which the coefficient rises")
    step: float = Field(1e-4, gt=0, description="with a target: change of the coefficient in one step of training")
    most: float = Field(0.005, gt=0, description="with a target: largest coefficient")

    @model_validator(mode="after")
    def _begins_in_bounds(self) -> Entropy:
        if self.target is not None and self.bonus > self.most:
            raise ValueError(f"the bonus begins at {self.bonus}, above its largest value, most: {self.most}")
        return self


class Correction(Options):
    """What is done about a sampler whose log-probabilities are not the learner's."""


class Recompute(Correction):
    """Old log-probabilities are the learner's own; the samples are taken as if they were too."""


class Truncate(Correction):
    """Old log-probabilities are the learner's own, and importance weights are cut at a cap."""

    level: WeightLevel = Field("token", description="of each token; of the response: product or geometric mean")
    cap: float = Field(2.0, gt=0, description="largest importance weight")


class Mask(Correction):
    """Old log-probabilities are the learner's own, and what has an importance weight out of range is not trained on."""

    level: WeightLevel = Field("sequence", description="of each token; of the response: product or geometric mean")
    low: float = Field(0.0, ge=0, description="smallest importance weight that counts")
    high: float = Field(2.0, gt=0, description="largest importance weight that counts")

    @model_validator(mode="after")
    def _some_fit(self) -> Mask:
        return _ordered(self)


class Aggregate(Options):
    """The denominator of each stream, taken over a whole optimizer batch (:mod:`outrider.objective.weights`)."""

    denominator: Literal["all", "with_signal"] = Field(
        "all", description="of all rows, or of those with an advantage alone; then the others are left out altogether"
    )


class TokenMean(Aggregate):
    """The trainable tokens of the stream."""


class SequenceMean(Aggregate):
    """The mean over rows of the mean over their tokens."""


class Constant(Aggregate):
    """The rows times a constant: no length enters."""

    length: int | None = Field(None, ge=1, description="tokens per row; null: sample.max_tokens")


SURROGATES: dict[str, type[Surrogate]] = {
    "clip": Clip,
    "unclipped": Unclipped,
    "cispo": Cispo,
    "gmpo": Gmpo,
    "sapo": Sapo,
}
SELECTIONS: dict[str, type[Selection]] = {"forking": Forking, "clip_cov": ClipCov, "kl_cov": KlCov}
CORRECTIONS: dict[str, type[Correction]] = {"recompute": Recompute, "truncate": Truncate, "mask": Mask}
AGGREGATES: dict[str, type[Aggregate]] = {
    "token_mean": TokenMean,
    "sequence_mean": SequenceMean,
    "constant": Constant,
}


class ObjectiveOptions(Options):
    """The loss, part by part. The defaults are PPO's clip of token ratios, a token mean, and nothing else.

    >>> ObjectiveOptions(surrogate={"clip": [0.2, 0.28]}, aggregate="sequence_mean", kl=0.001).kl.estimator
    'k3'
    """

    surrogate: Annotated[Surrogate, PieceOf(SURROGATES, "surrogate")] = Field(default_factory=Clip)
    select: Annotated[Selection, PieceOf(SELECTIONS, "token selection")] | None = Field(
        None, description="tokens that are treated otherwise, chosen over the whole optimizer batch"
    )
    kl: Kl = Field(default_factory=Kl)
    entropy: Entropy = Field(default_factory=Entropy)
    correction: Annotated[Correction, PieceOf(CORRECTIONS, "correction")] | None = Field(
        None, description="null: old log-probabilities are the sampler's"
    )
    aggregate: Annotated[Aggregate, PieceOf(AGGREGATES, "way to aggregate")] = Field(default_factory=TokenMean)
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
        whole = isinstance(self.surrogate, Gmpo) or getattr(self.surrogate, "ratio", "token") == "sequence"
        masked = isinstance(self.correction, Mask) and self.correction.level == "token"
        if whole and (masked or isinstance(self.select, (Forking, ClipCov))):
            raise ValueError(
                f"{'correction' if masked else 'select'} leaves single tokens out, but this surrogate has one ratio "
                "for a whole response, through which they would be trained all the same (ratio: sequence_token has "
                "one gradient per token)"
            )
        return self
