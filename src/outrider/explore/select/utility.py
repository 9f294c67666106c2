"""DEEP-GRPO's choice of branch points: late in a response, but where a continuation can still succeed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field, PrivateAttr

from outrider.explore.recover import Recoverability
from outrider.explore.select.base import Pivot, PivotOutcome, Selector, Source
from outrider.record import uniforms


class Utility(Selector):
    r"""Draws branch points among the cuts of one rollout, without replacement, with probability

    .. math:: Q(t) \propto W(t) \, R(t), \qquad W(t) = r_t^\gamma, \quad R(t) = \sigma(w r_t + b), \quad r_t = t / T

    where a cut keeps ``t`` of ``T`` tokens. R is learned from the outcomes of earlier steps (:class:`Recoverability`)
    and is 1 until there are enough outcomes. The cuts are drawn by the Gumbel-top-k trick on :math:`\log Q`.

    ``include_root`` adds the end of the prompt, ``t = 0``, to the cuts. The weight is then ``W(t) = ((t + s) / (T +
    s))^gamma``, where ``s`` is the first segment's length; R does not change. For segments of equal length, ``(t + s) /
    (T + s)`` is ``(i + 1) / (segments + 1)``, with ``i`` segments before the cut, as in the released code. Outcomes of
    new rollouts from the prompt are not used to fit R.

    R is the probability that a branch recovers from a failure. R is therefore fitted only to branch points (pivots) in
    failed rollouts, including those of other branching stages.

    Degenerate cases: a rollout without a candidate has no pivot, or has the prompt as its pivot if ``include_root`` is
    set. If there are fewer candidates than requested pivots, all candidates are taken. With gamma = 0 only
    recoverability counts.

    Source: DEEP-GRPO (arXiv 2602.14169) Eqs. 1 to 3. The paper counts t and T in segments. Here t and T count tokens,
    so that R does not depend on the segmenter. If all segments have the same length, both counts give the same t / T.
    gamma is 2 as in the paper. (In the released code the default is 0.1 in the class and 2 in the configuration.)
    """

    gamma: float = Field(
        2.0,
        ge=0,
        le=1000,
        description=(
            "exponent of a branch point's selection weight r^gamma, where r is the relative position in the response "
            "(0 to 1); larger values favour later branch points; 0: no preference"
        ),
    )
    memory: int = Field(
        10_000,
        ge=1,
        description=(
            "number of most recent branch points from which the selector learns how the chance that at least one "
            "branch succeeds depends on the position; only branch points in failed responses count"
        ),
    )
    include_root: bool = Field(
        False,
        description=(
            "whether the end of the prompt counts as a possible branch point; a branch from there is a new independent "
            "rollout"
        ),
    )
    _recover: Recoverability = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Create the estimator, which lives as long as the selector."""
        self._recover = Recoverability(self.memory)

    @property
    def plants(self) -> bool:
        return self.include_root

    def select(self, source: Source, pivots: int) -> list[Pivot]:
        [chain] = source.chains
        cuts = [0, *chain.candidates] if self.include_root else list(chain.candidates)
        if not cuts:
            return []
        at_C, length = np.array(cuts), max(chain.length, 1)
        shift = (chain.bounds[0] if chain.bounds else length) if self.include_root else 0
        value_C = self.gamma * np.log((at_C + shift) / (length + shift))
        gumbel_C = -np.log(-np.log(uniforms(np.array([source.seed]), at_C)[0]))
        keys_C = value_C + self._recover.log_probability(at_C / length) + gumbel_C
        return [Pivot(chain.rollout, cuts[i]) for i in np.argsort(-keys_C, kind="stable")[:pivots]]

    def observe(self, outcomes: Sequence[PivotOutcome]) -> dict[str, float]:
        """Learn from a step. Return the number of stored outcomes, and the fitted slope ``w`` and intercept ``b`` of
        the logistic regression (NaN before the first fit)."""
        failed = [o for o in outcomes if o.failed]
        self._recover.learn([o.ratio for o in failed], [o.success for o in failed])
        w, b = (math.nan if value is None else value for value in (self._recover.w, self._recover.b))
        return {"outcomes": float(len(self._recover.ratios)), "w": w, "b": b}

    def state_dict(self) -> dict[str, Any]:
        return self._recover.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._recover.load_state_dict(state)
