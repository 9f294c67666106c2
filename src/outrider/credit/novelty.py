"""XRPO's novelty sharpening: unlikely correct responses get a bonus."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import Field

from outrider.arrays import Flags, Floats
from outrider.credit.chain import Shaper
from outrider.credit.members import Members
from outrider.credit.recorded import logprobs_of


class Novelty(Shaper):
    r"""Adds a bonus to the advantage of every success that is less likely than the group average.

    .. math:: s_i = \frac{1}{|y_i|} \sum_t \log \pi_\mathrm{old}(y_{i,t}), \qquad \eta_i = e^{s_i - \bar s}, \qquad
              A_i^+ = A_i + \max\big(0, \min(\lambda \max(1 - \eta_i, 0), \kappa A_i)\big)

    The mean :math:`\bar s` is over all valid members, correct or not. :math:`A_i` is the member's mean advantage, and
    all its tokens get the same bonus. Log-probabilities are those of trainable tokens, recorded at sampling.

    Degenerate cases: a single valid member (a rollout that the verifier could score) has :math:`\eta = 1` and gets no
    bonus. The advantages of failures, and of rollouts that the verifier could not score, never change. If :math:`A_i
    \le 0`, the cap makes the bonus 0 (our choice, since Eq. 6 would subtract). In a group with only successes, most
    baselines give advantages of 0. Such a group therefore gets no bonus and has no gradient, although section 3.3 of
    the paper claims that it has one. With ``degenerate_cap`` such a group (all valid members successful, all advantages
    0) gets :math:`\min(\lambda \max(1 - \eta_i, 0), c)`, centred over its valid members, which implements the claim.

    Source: XRPO, arXiv 2510.06672, equations 4 to 6, with λ = 2.5 (``weight``) and κ = 0.5 (``cap``) from section 4.1.
    Our choice: the mean :math:`\bar s` is over the whole group. With ``per_conditioning``, prompts with examples or
    hints have their own mean :math:`\bar s`, since their likelihoods are not comparable to those of plain prompts.
    Deviation: the sampler computes likelihoods at its own temperature; in the paper the trainer computes likelihoods at
    temperature 1. The two likelihoods are equal if one engine both samples and trains at temperature 1, as in the
    recipe ``xrpo``.

    >>> m = Members(
    ...     np.array([1.0, 1, 0]), np.array([True, True, False]), np.array([1, 2, 1]),
    ...     logprobs_GT=[np.array([-3.0]), np.array([-1.0, -1.0]), np.array([-2.0])],
    ... )
    >>> [a.round(3).tolist() for a in Novelty().shape([np.array([0.6]), np.array([0.6, 0.6]), np.array([-1.2])], m, 1)]
    [[0.9], [0.6, 0.6], [-1.2]]
    """

    weight: float = Field(
        2.5,
        ge=0,
        description=(
            "factor λ in the bonus λ (1 - η), where η is the ratio of a success's likelihood to the group's average "
            "likelihood"
        ),
    )
    cap: float = Field(0.5, ge=0, description="maximum novelty bonus of a success, as a fraction of its advantage")
    degenerate_cap: float | None = Field(
        None,
        gt=0,
        description=(
            "maximum novelty bonus in a group without failures, where all advantages are 0; null: no bonus in such a "
            "group"
        ),
    )
    per_conditioning: bool = Field(
        False,
        description=(
            "whether to average likelihoods separately over rollouts from plain prompts and rollouts from prompts with "
            "examples or hints"
        ),
    )

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        valid_G = members.valid_G
        rare_G = self.weight * np.maximum(1.0 - self.typicality(members), 0.0)
        mean_G = np.array([a.sum() / max(len(a), 1) for a in advantages_GT])
        added_G = np.where(members.success_G & valid_G, np.clip(self.cap * mean_G, 0.0, rare_G), 0.0)
        alike = bool(valid_G.any()) and bool(members.success_G[valid_G].all()) and not mean_G.any()
        if self.degenerate_cap is not None and alike:
            bonus_G = np.minimum(rare_G, self.degenerate_cap)
            added_G = np.where(valid_G, bonus_G - bonus_G[valid_G].mean(), 0.0)
        return [a + added for a, added in zip(advantages_GT, added_G, strict=True)]

    def typicality(self, members: Members) -> Floats:
        """Return :math:`\\eta` of each member; 1 for invalid members."""
        eta_G, valid_G = np.ones(members.size), members.valid_G
        scores_G = np.array([lp.sum() / max(len(lp), 1) for lp in logprobs_of(members, "novelty")])
        for compared_G in self._compared(members):
            chosen_G = compared_G & valid_G
            if chosen_G.any():
                eta_G[chosen_G] = np.exp(scores_G[chosen_G] - scores_G[chosen_G].mean())
        return eta_G

    def _compared(self, members: Members) -> list[Flags]:
        if self.per_conditioning:
            return [members.seeded_G, ~members.seeded_G]
        return [np.ones(members.size, np.bool_)]
