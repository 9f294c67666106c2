"""TreePO's branch points: in each round, all rollouts of a problem branch at their next segment boundary."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from outrider.explore.select.base import Pivot, Selector, Source
from outrider.record import identity_seed, uniforms


class Boundary(Selector):
    """Branches all paths of a problem at their ``d``-th cut in round ``d``, until the problem has ``width`` rollouts.

    Paths branch in a seeded random order. Once no path reaches the ``d``-th cut, the remaining rollouts start at random
    cuts.

    This is TreePO's sampling method (arXiv 2508.17445; ``vllm_rollout_tree.py``). TreePO uses segments of 512 tokens,
    depth 14 and width 16. In TreePO every active path splits in two; to reproduce this, set ``branches: 1`` and
    ``rounds`` above ``depth``. TreePO branches paths during generation; Outrider branches finished paths. The two
    methods sample from the same distribution, and neither generates a token twice. The random cuts follow TreePO's
    fallback, which first draws a finished path uniformly, and then one of its cuts or the prompt, also uniformly.
    TreePO can also stop paths early and adapt the number of branches to token probabilities; neither is implemented.

    Degenerate cases: a problem with ``width`` or more rollouts gets no further rollouts. A problem stays below
    ``width`` if the number of missing rollouts is not a multiple of ``branches``, or if there are too few ``rounds``
    for the random cuts. The metric ``short`` of the stage ``branch`` counts the missing rollouts. ``pivots`` limits how
    many paths of a problem branch in one round.
    """

    over: ClassVar[Literal["rollout", "tree", "problem"]] = "problem"

    depth: int = Field(
        14,
        ge=1,
        description=(
            "number of branching rounds with fixed boundaries: in round d, rollouts branch at their d-th segment "
            "boundary; later rounds use random boundaries"
        ),
    )
    width: int = Field(
        16,
        ge=2,
        description=(
            "maximum number of rollouts per problem, including its first rollouts; branching stops at this number"
        ),
    )

    @property
    def fills(self) -> int:
        return self.width

    def select(self, source: Source, pivots: int) -> list[Pivot]:
        room = min(pivots, (self.width - source.members) // source.branches)
        if room < 1:
            return []
        level = source.round
        reached = [
            c for c in source.chains if level < min(self.depth, len(c.bounds)) and c.bounds[level] in c.candidates
        ]
        if reached:
            reached.sort(key=lambda chain: identity_seed(source.seed, chain.rollout.member))
            return [Pivot(chain.rollout, chain.bounds[level]) for chain in reached[:room]]
        picks = []
        for u_path, u_cut in uniforms(np.array([source.seed]), np.arange(2 * room))[0].reshape(room, 2):
            chain = source.chains[int(u_path * len(source.chains))]
            picks.append(Pivot(chain.rollout, [0, *chain.candidates][int(u_cut * (len(chain.candidates) + 1))]))
        return picks
