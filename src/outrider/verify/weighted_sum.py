"""A verifier that adds the weighted scores of several verifiers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field, model_validator

from outrider.components import ComponentOf
from outrider.record import Outcome, Problem, Verdict
from outrider.verify.function import NoRewardError
from outrider.verify.single import SINGLE
from outrider.verify.verifier import PooledVerifier, Verifier


class WeightedSum(PooledVerifier):
    r"""Accepts a response if the weighted sum of several scores, :math:`\sum_i w_i s_i`, is at least ``success_at``.

    Each verifier receives the whole response and removes the reasoning itself. If a verifier finds the response
    unparseable, its score is 0. A reward function that returns None does not apply to the problem and is excluded from
    the sum, as in TRL. If no function applies, the outcome is *error*. If the outcome of one verifier is *error* or
    *timeout*, the sum has the same outcome. The first verifier that applies provides the answer for majority votes. The
    limits on time and memory apply to all verifiers together.

    Raises:
        UserError: the number of weights differs from the number of verifiers, or a weight is not finite.
    """

    verifiers: list[Annotated[Verifier, ComponentOf(SINGLE, "verifier", Verifier)]] = Field(
        min_length=1, description="verifiers whose scores are added up, each given as a name or as a name with options"
    )
    weights: list[float] | None = Field(
        None,
        description=(
            "weights of the verifiers' scores in the sum, in the same order as verifiers; null: weight 1 for every "
            "verifier"
        ),
    )
    success_at: float = Field(1.0, description="minimum weighted sum of scores at which a response counts as correct")

    @model_validator(mode="after")
    def _one_for_each(self) -> WeightedSum:
        if self.thinking is not None:
            raise ValueError("thinking is an option of each verifier")
        if self.weights is not None and len(self.weights) != len(self.verifiers):
            raise ValueError(f"weights has {len(self.weights)} numbers for {len(self.verifiers)} verifiers")
        return self

    def prepare(self) -> None:
        for verifier in self.verifiers:
            verifier.prepare()

    def reference(self, fields: Mapping[str, Any], answer: str) -> list[Any]:
        return [verifier.reference(fields, answer) for verifier in self.verifiers]

    def verify(self, problem: Problem, text: str, finished: bool) -> Verdict:
        total, first, left = 0.0, None, 0
        weights = self.weights or [1.0] * len(self.verifiers)
        for verifier, weight, reference in zip(self.verifiers, weights, problem.answer, strict=True):
            try:
                verdict = verifier.verify(replace(problem, answer=reference), text, finished)
            except NoRewardError:
                left += 1
                continue
            if verdict.outcome in (Outcome.TIMEOUT, Outcome.ERROR):
                return verdict
            first = verdict if first is None else first
            total += weight * verdict.score
        if first is None:
            return Verdict(Outcome.ERROR, math.nan, detail="every reward function returned None")
        outcome = Outcome.CORRECT if total >= self.success_at else Outcome.INCORRECT
        counted = [f"{left} of {len(self.verifiers)} rewards returned None"] if left else []
        detail = "; ".join([*filter(None, [first.detail]), *counted])
        return Verdict(outcome, total, answer=first.answer, detail=detail)

    def right(self, problem: Problem) -> None:
        return None  # a response that is only the gold answer may fail another verifier
