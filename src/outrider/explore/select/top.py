"""Pivots before the most uncertain tokens of a tree."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from outrider.errors import UserError
from outrider.explore.select.base import Pivot, Selector, Source
from outrider.needs import Needs
from outrider.record import Rollout


class Surprisal(Selector):
    r"""The cuts of a tree before the tokens of highest surprisal, ``-log p`` of the token that was sampled.

    With ``chunk: {tokens: 1}`` every token is a cut: TreeRL's choice (arXiv 2506.11902; its code calls this entropy),
    per tree over all its rollouts, continued from just before the token. A side branch's first token is none of its
    cuts, being its parent's; nor are tokens behind an answer mark (TreeRL: "answer", "conclusion").

    Ties go to the earlier member, then the earlier token. Deviations from the released code, all of which concern
    degenerate cases: the first token of a root is no cut (nothing would be kept); with fewer cuts than pivots there
    are fewer pivots, where it repeats some; and a cut is branched once, where its later rounds may choose it again.
    Surprisal is under the distribution that was sampled from, temperature applied.
    """

    over: ClassVar[Literal["rollout", "tree", "problem"]] = "tree"

    def signal(self, rollout: Rollout) -> NDArray[np.float32]:
        """Uncertainty of every own token, in nats."""
        return -rollout.logprobs_T

    def select(self, source: Source, pivots: int) -> list[Pivot]:
        scored: list[tuple[float, Pivot]] = []
        for chain in source.chains:
            own_T = self.signal(chain.rollout) if chain.candidates else np.zeros(0, np.float32)
            first = chain.rollout.branch_at
            scored += [(float(own_T[at - first]), Pivot(chain.rollout, at)) for at in chain.candidates]
        scored.sort(key=lambda cut: -cut[0])  # stable, so ties keep their order
        return [pivot for _, pivot in scored[:pivots]]


class Entropy(Surprisal):
    """The cuts of a tree before the tokens of highest entropy: the same, with the uncertainty before sampling.

    Raises:
        UserError: the sampler records no entropies.
    """

    requires: ClassVar[Needs] = frozenset({"entropies"})

    def signal(self, rollout: Rollout) -> NDArray[np.float32]:
        if rollout.entropies_T is None:
            raise UserError(
                "select.entropy needs the entropy of every token, and this sampler records none; use surprisal"
            )
        return rollout.entropies_T
