"""Pivots drawn uniformly, and the plain prompt as pivot."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from outrider.explore.select.base import Pivot, Selector, Source
from outrider.record import uniforms


class UniformCut(Selector):
    """Draws cuts of a tree uniformly, with replacement, its prompt among them.

    Tree-GRPO (arXiv 2509.21240; ``generation_ts.py``): per tree, nodes are drawn from the root and all non-leaf nodes,
    one new chain each; here with turns as segments and ``branches: 1``. A chain from the prompt has no parent, so it is
    a separate tree of the group; the released code adds it to the tree that drew it.

    Degenerate cases: a tree without a cut gives its prompt, or nothing without ``include_root``.
    """

    over: ClassVar[Literal["rollout", "tree", "problem"]] = "tree"

    include_root: bool = Field(True, description="whether to include the end of the prompt as a possible pivot")

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
    """Picks the prompt: as many new rollouts as branching would sample, in the branch stream.

    This is the utility of DEEP-GRPO as gamma goes to minus infinity (its appendix C.1, "Root Only"): the ablation of
    depth. New rollouts have no parent, so those of all failed chains of a problem are siblings of each other. Their
    baseline has more members than that of a pivot's branches.
    """

    @property
    def plants(self) -> bool:
        return True

    def select(self, source: Source, pivots: int) -> list[Pivot]:
        return [Pivot(source.chains[0].rollout, 0)] * pivots
