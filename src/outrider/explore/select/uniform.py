"""Selectors that draw branch points (pivots) uniformly, or always pick the prompt."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from outrider.explore.select.base import Pivot, Selector, Source
from outrider.record import uniforms


class UniformCut(Selector):
    """Draws cuts of a tree uniformly, with replacement; with ``include_root`` the prompt counts as a cut.

    This is Tree-GRPO's rule (arXiv 2509.21240; ``generation_ts.py``), with turns as segments and ``branches: 1``. Nodes
    of each tree are drawn from the root and all non-leaf nodes, and each drawn node gets one new rollout. A rollout
    from the prompt has no parent, so here it begins a new tree. The released code adds this rollout to the tree whose
    root was drawn.

    Degenerate cases: if a tree has no cut, the pivot is the prompt if ``include_root`` is set; otherwise there is no
    pivot.
    """

    over: ClassVar[Literal["rollout", "tree", "problem"]] = "tree"

    include_root: bool = Field(
        True,
        description=(
            "whether the end of the prompt counts as a possible branch point; a branch from there is a new independent "
            "rollout"
        ),
    )

    @property
    def plants(self) -> bool:
        return self.include_root

    def select(self, source: Source, pivots: int) -> list[Pivot]:
        cuts = [Pivot(chain.rollout, at) for chain in source.chains for at in chain.candidates]
        if self.include_root:
            cuts.insert(0, Pivot(source.chains[0].rollout, 0))
        drawn = uniforms(np.array([source.seed]), np.arange(pivots))[0]
        return [cuts[int(u * len(cuts))] for u in drawn] if cuts else []


class Root(Selector):
    """Always picks the end of the prompt, so that new independent rollouts are sampled instead of branches.

    The selector is DEEP-GRPO's ablation "Root Only" (appendix C.1 of the paper). New rollouts have no parent, so all
    new rollouts of a problem are siblings. Their baseline therefore averages over more rollouts than the baseline of
    branches from one position.
    """

    @property
    def plants(self) -> bool:
        return True

    def select(self, source: Source, pivots: int) -> list[Pivot]:
        return [Pivot(source.chains[0].rollout, 0)] * pivots
