"""Selectors, which pick the cuts (positions in rollouts) to branch. Each file has the selectors of one criterion."""

from outrider.explore.select.attention import Attention
from outrider.explore.select.base import Pivot, PivotOutcome, Selector, Source
from outrider.explore.select.boundary import Boundary
from outrider.explore.select.top import Entropy, Surprisal
from outrider.explore.select.uniform import Root, UniformCut
from outrider.explore.select.utility import Utility

SELECTORS: dict[str, type[Selector]] = {
    "utility": Utility,
    "uniform": UniformCut,
    "surprisal": Surprisal,
    "entropy": Entropy,
    "attention": Attention,
    "boundary": Boundary,
    "root": Root,
}

__all__ = ["SELECTORS", "Pivot", "PivotOutcome", "Selector", "Source"]
