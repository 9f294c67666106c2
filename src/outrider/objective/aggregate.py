"""The contract of aggregation: the denominator of the loss of each stream, over an optimizer batch. NumPy only."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from outrider.arrays import Floats
from outrider.options import Options


class Aggregate(Options):
    """The denominator of each stream, over a whole optimizer batch (:mod:`outrider.objective.weights`)."""

    denominator: Literal["all", "with_signal"] = Field(
        "all",
        description=(
            "rows in the denominator: all, or only those with an advantage (the others are excluded from the loss)"
        ),
    )

    @property
    def fixed(self) -> bool:
        """Whether the denominator is independent of the responses."""
        return False

    def divisor(self, tokens_R: Floats, max_tokens: int) -> Floats | float:
        """The divisor of a token: one number for all rows of a stream, or one per row with tokens, in order.

        ``tokens_R``: trainable tokens of each row of the stream; at least one is more than 0.
        """
        raise NotImplementedError


class TokenMean(Aggregate):
    r"""The trainable tokens of the stream, :math:`\sum_i n_i`."""

    def divisor(self, tokens_R: Floats, max_tokens: int) -> float:
        return float(tokens_R[tokens_R > 0].sum())


class SequenceMean(Aggregate):
    r"""The mean over rows of the mean over their tokens: :math:`R\, n_i` with the :math:`R` rows that have a token."""

    def divisor(self, tokens_R: Floats, max_tokens: int) -> Floats:
        with_tokens = tokens_R[tokens_R > 0]
        # a row without tokens has no mean, so it is not averaged
        return with_tokens * len(with_tokens)


class Constant(Aggregate):
    """The number of rows times a constant, independent of their lengths."""

    length: int | None = Field(None, ge=1, description="tokens per row in the denominator; null: sample.max_tokens")

    @property
    def fixed(self) -> bool:
        return self.denominator == "all"

    def divisor(self, tokens_R: Floats, max_tokens: int) -> float:
        return float(len(tokens_R) * (self.length or max_tokens))
