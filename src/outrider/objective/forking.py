"""Forking tokens: only tokens with high entropy are trained. Uses only NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from outrider.needs import Needs
from outrider.objective.entropy import entropies_of
from outrider.objective.selection import Selected, Selection, least_of_highest, trainable
from outrider.record.row import WeightedRow


class Forking(Selection):
    """Only the tokens with the highest entropy keep their policy gradient.

    Source: arXiv 2506.01939, with a share of 0.2. The loss's denominator still counts all tokens, as in the paper.
    """

    leaves_out: ClassVar[bool] = True
    requires: ClassVar[Needs] = frozenset({"entropies"})

    share: float = Field(
        0.2,
        gt=0,
        le=1,
        description=(
            "fraction of an optimizer batch's trainable tokens that keep their policy gradient: those with the highest "
            "entropy"
        ),
    )

    def select(self, rows: Sequence[WeightedRow]) -> list[Selected]:
        entropies = [entropies_of(row, "objective.select.forking") for row in rows]
        threshold = least_of_highest(trainable(rows, entropies), self.share)
        return [Selected(keeps_N=(e >= threshold) & row.trainable_N) for row, e in zip(rows, entropies, strict=True)]
