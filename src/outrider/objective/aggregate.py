"""Aggregation of token losses: their sum is divided by a denominator. Each stream (a set of rollouts with its own
weight in the loss) has its own denominator, computed over all micro-batches of an update. The module uses only
NumPy."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from outrider.arrays import Floats
from outrider.options import Options


class Aggregate(Options):
    """The denominator by which summed token losses are divided (:mod:`outrider.objective.weights`)."""

    denominator: Literal["all", "with_signal"] = Field(
        "all",
        description=(
            "sequences counted in the loss denominator: all sequences (all), or only sequences with a non-zero "
            "advantage (with_signal); with_signal excludes all other sequences from training"
        ),
    )

    @property
    def fixed(self) -> bool:
        """Whether the denominator is independent of the responses."""
        return False

    def divisor(self, tokens_R: Floats, max_tokens: int) -> Floats | float:
        """Return the divisor of token losses: one number for all rows, or one number for each row that has trainable
        tokens.

        ``tokens_R``: number of trainable tokens in each row (rollout) over which losses are aggregated; at least one
        row has trainable tokens.
        """
        raise NotImplementedError


class TokenMean(Aggregate):
    r"""Divides by the number of trainable tokens in the stream, :math:`\sum_i n_i`."""

    def divisor(self, tokens_R: Floats, max_tokens: int) -> float:
        return float(tokens_R[tokens_R > 0].sum())


class SequenceMean(Aggregate):
    r"""The mean over rows of each row's token mean: divides by :math:`R\, n_i`, with :math:`R` the number of rows with
    a token."""

    def divisor(self, tokens_R: Floats, max_tokens: int) -> Floats:
        with_tokens = tokens_R[tokens_R > 0]
        # a row without tokens has no mean, so it is not averaged
        return with_tokens * len(with_tokens)


class Constant(Aggregate):
    """Divides summed token losses by the number of rows times a constant, which does not depend on response lengths."""

    length: int | None = Field(
        None,
        ge=1,
        description=(
            "number of tokens that each sequence adds to the loss denominator, whatever its actual length; null: the "
            "value of sample.max_tokens"
        ),
    )

    @property
    def fixed(self) -> bool:
        return self.denominator == "all"

    def divisor(self, tokens_R: Floats, max_tokens: int) -> float:
        return float(len(tokens_R) * (self.length or max_tokens))
