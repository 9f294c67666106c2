"""Branch points before the steps that later steps attend to most (AttnRL)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from outrider.explore.select.base import Pivot, Selector, Source
from outrider.needs import Needs


class Attention(Selector):
    r"""Picks branch points before steps of a response that receive much attention from later steps.

    .. math:: F_i = \max_h \sum_{j \ge i + \Delta} a_{h,ji}

    The influence ``F_i`` is the attention that step i receives from step ``i + ahead`` (Δ) on. ``a_{h,ji}`` is head h's
    mean attention from the tokens of step j to the tokens of step i; h ranges over the heads of all layers, and the
    segmenter defines the steps. The first step, and steps at which no branch may start, have F = 0. Pivots (branch
    points) are the earliest steps with F at or above the ``quantile`` of all F. If this quantile is 0, the threshold is
    the smallest positive F instead. Pivots are at least ``distance`` tokens from the start and from each other. If
    fewer steps qualify than pivots are requested, the earliest other cuts are added, at any distance.

    The attention is computed by one forward pass for each rollout in which a branch may start. Degenerate cases: if
    there are at most ``ahead`` steps, every F is 0 and all steps rank equally. If there are fewer cuts than pivots, all
    cuts are taken; the released code repeats some cuts.

    Source: AttnRL (``attnrl_core_algos.py``, ``modeling_qwen2.py``). ``distance`` is measured between branch points,
    each at the start of a step; the released code measures from the end of the earlier of the two steps.
    """

    requires: ClassVar[Needs] = frozenset({"attention"})

    quantile: float = Field(
        0.8,
        ge=0,
        le=1,
        description=(
            "quantile of the attention that segments receive from later segments; branches start before segments "
            "above this quantile, such as the top fifth (0.8)"
        ),
    )
    ahead: int = Field(
        4,
        ge=1,
        description=(
            "minimum distance, in segments, at which attention from a later segment counts; 1: attention from the next "
            "segment counts too"
        ),
    )
    distance: int = Field(
        512,
        ge=0,
        description=(
            "minimum number of tokens between branch points, and between the start of the response and the first "
            "branch point"
        ),
    )

    def select(self, source: Source, pivots: int) -> list[Pivot]:
        [chain] = source.chains
        if not chain.candidates:
            return []
        starts = [0, *chain.bounds]
        influence_S = self.influence(source.engine.attention(chain.rollout, starts))
        influence_S[~np.isin(starts, chain.candidates)] = 0.0
        threshold = np.quantile(influence_S, self.quantile)
        if threshold == 0 and influence_S.any():
            threshold = influence_S[influence_S > 0].min()
        chosen: list[int] = []
        for at, influence in zip(starts, influence_S, strict=True):
            apart = all(at - other >= self.distance for other in (0, *chosen))
            if len(chosen) < pivots and at in chain.candidates and influence >= threshold and apart:
                chosen.append(at)
        chosen += [at for at in chain.candidates if at not in chosen][: pivots - len(chosen)]
        return [Pivot(chain.rollout, at) for at in chosen]

    def influence(self, attention_HSS: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the influence F of each of S steps, float64 ``[S]``. ``attention_HSS[h, j, i]`` is head h's mean
        attention from step j to step i.

        >>> attention = np.zeros((2, 3, 3))
        >>> attention[0, 1:, 0], attention[1, 2, 0] = 0.2, 0.3
        >>> Attention(ahead=1).influence(attention).tolist()
        [0.4, 0.0, 0.0]
        """
        steps = attention_HSS.shape[1]
        return np.array([attention_HSS[:, i + self.ahead :, i].sum(1).max() for i in range(steps)])
