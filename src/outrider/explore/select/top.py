"""Branch points before a tree's most uncertain tokens (TreeRL)."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from outrider.errors import UserError
from outrider.explore.select.base import Pivot, Selector, Source
from outrider.needs import Needs
from outrider.record import Rollout


class Surprisal(Selector):
    r"""Picks a tree's cuts before the tokens with the highest surprisal, ``-log p`` of the sampled token.

    With ``chunk: {tokens: 1}`` every token is a cut, as in TreeRL (arXiv 2506.11902). TreeRL ranks the tokens of all
    rollouts of a tree, and branches just before the highest-ranked tokens. Its code calls surprisal "entropy". A branch
    has no cut before its own first token, since this cut belongs to its parent. Tokens after an answer mark are not
    cuts either (TreeRL's marks are "answer" and "conclusion").

    Ties go to the earlier rollout, then the earlier token. The released code differs only in degenerate cases. Here the
    first token of a root is not a cut (its prefix would be empty). If there are fewer cuts than requested pivots, all
    cuts are picked; the released code repeats some cuts. Here a cut is picked only once; in the released code, later
    rounds may pick the same cut again. Surprisal is computed under the sampling distribution, with temperature applied.
    """

    over: ClassVar[Literal["rollout", "tree", "problem"]] = "tree"

    def signal(self, rollout: Rollout) -> NDArray[np.float32]:
        """Return the uncertainty, in nats, of each token that the rollout itself generated."""
        return -rollout.logprobs_T

    def select(self, source: Source, pivots: int) -> list[Pivot]:
        scored: list[tuple[float, Pivot]] = []
        for chain in source.chains:
            own_T = self.signal(chain.rollout) if chain.candidates else np.zeros(0, np.float32)
            first = chain.rollout.branch_at
            scored += [(float(own_T[at - first]), Pivot(chain.rollout, at)) for at in chain.candidates]
        scored.sort(key=lambda cut: -cut[0])  # a stable sort: ties keep their order
        return [pivot for _, pivot in scored[:pivots]]


class Entropy(Surprisal):
    """Picks a tree's cuts before the tokens with the highest entropy, and otherwise works like ``surprisal``.

    Raises:
        UserError: the sampler records no entropies.
    """

    requires: ClassVar[Needs] = frozenset({"entropies"})

    def signal(self, rollout: Rollout) -> NDArray[np.float32]:
        if rollout.entropies_T is None:
            raise UserError(
                "select.entropy needs the entropy of every token, but this sampler records none: use surprisal"
            )
        return rollout.entropies_T
