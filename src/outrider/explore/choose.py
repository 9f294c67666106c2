"""Choose: prefers problems on which a generated token is predicted to improve the objective most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field, PrivateAttr

from outrider.explore.bounds import Bounds
from outrider.explore.pass_rate_model import PassRateModel, Prediction
from outrider.explore.stage import PlansAhead, Stage
from outrider.explore.view import View
from outrider.record import Group, Problem, SampleRequest, identity_seed


class Choose(PlansAhead, Stage):
    r"""Accepts a problem with a probability that rises with the predicted improvement of the objective per generated
    token.

    .. math:: \mathrm{value} = \frac{\mathrm{E}[p (1 - p)^k]}{F c}, \qquad
        \mathrm{probability} = \max\left(\mathrm{floor}, \min\left(1,
        \frac{\mathrm{value}}{\mathrm{enough} \cdot \mathrm{best}}\right)\right)

    Here p is the problem's pass rate, F the gradient noise per rollout, and c the number of tokens per rollout; all
    three are predicted by :class:`~outrider.explore.pass_rate_model.PassRateModel`. ``best`` is the highest value that
    a new problem of any difficulty level would have.

    The formula for the value is motivated as follows. If gradient noise dominates, an update step of fixed norm changes
    the objective by :math:`\sum_i w_i C_i / (\sum_i w_i^2 N_i / n_i)^{1/2}`. Problem i has weight :math:`w_i` and
    :math:`n_i` rollouts; :math:`C_i` is the inner product of its gradient with the objective's gradient, and
    :math:`N_i` the noise of one rollout. Under optimal weights the square of this change is :math:`\sum_i n_i C_i^2 /
    N_i`, so the value of a token is :math:`C^2 / (N c)`. :math:`N = F p (1 - p)` if a score's norm does not depend on
    the reward. :math:`C = p (1 - p) \delta`, where :math:`\delta` is the distance, along the objective's gradient,
    between the mean scores of correct and incorrect responses. We assume that :math:`\delta` is equal for all problems.
    ``benchmarks/studies/worth.py`` measured C and N: C grows with :math:`p (1 - p)` and does not depend on response
    length. N deviates from the formula: it is about :math:`p^{0.7} (1 - p)^{0.5}` times the length to the power 0.8
    [0.3, 1.1]. Accepting only the best problems would improve the policy on those problems alone, so every problem
    whose value exceeds ``enough`` times the best value is accepted.

    If ``k`` is above 1, the value includes the factor :math:`(1 - p)^{k-1}`, so nearly solved problems have low values.
    Up to the constant k, this factor is a problem's weight in the pass@k objective, the derivative of :math:`1 - (1 -
    p)^k`. (Credit ``passk`` with ``variant: training`` also divides by a standard deviation.) The factor is our choice;
    it does not follow from the argument above, in which the weights :math:`w_i` cancel.

    Because of the selection, the gradient is biased towards problems with short responses and moderate pass rates.
    Problems that are too hard are mostly refused until the policy improves on easier problems. Because of ``floor``,
    problems that are too hard are still sampled sometimes, so the stage notices when the policy begins to solve them.
    The stage does not sample rollouts, and can be placed anywhere in ``explore``. It filters the initial problems of a
    step and the problems that other stages add.

    The stage learns from every rollout that the verifier could score, including rollouts in dropped groups. Branches
    (continuations of other rollouts) and rollouts with hints or in-context examples are ignored. Degenerate cases: all
    problems are accepted in the first step. All problems are also accepted if they are all new and have the same
    difficulty level, or if the value is 0 at every difficulty level. If every sampled token had probability 1, F is 0,
    and the problem's value counts as 0 . The random draw depends on the run's seed, the step, the problem, and the
    number of times that the problem was offered in this step.

    >>> Choose().floor
    0.02
    """

    enough: float = Field(
        0.3,
        gt=0,
        le=1,
        description=(
            "a problem is always accepted if its predicted improvement per token is at least this fraction of the "
            "highest value that a new problem of any difficulty level would have"
        ),
    )
    k: int = Field(
        1,
        ge=1,
        description=(
            "k of the pass@k objective; values above 1 lower the predicted improvement on nearly solved problems"
        ),
    )
    floor: float = Field(
        0.02,
        gt=0,
        le=1,
        description="minimum probability of accepting a problem, even if the predicted improvement is very small",
    )

    _model: PassRateModel = PrivateAttr(default_factory=PassRateModel)
    _seed: int = PrivateAttr(0)
    _offers: Counter[str] = PrivateAttr(default_factory=Counter)  # offers by problem in this step
    _refused: int = PrivateAttr(0)

    def bounds(self, before: Bounds, problems: int) -> Bounds:
        return before

    def plan(self, view: View) -> list[SampleRequest]:
        self._seed = view.seed
        return []

    def chance(self, problem: Problem) -> float:
        """Return the probability that a problem is accepted."""
        best = max((token_value(level, self.k) for level in self._model.levels()), default=0.0)
        share = token_value(self._model.predict(problem), self.k) / best if best else 1.0
        return max(min(share / self.enough, 1.0), self.floor)

    def admits(self, problem: Problem, step: int) -> bool:
        self._offers[problem.id] += 1  # a small training set may repeat within a step: draw anew
        draw = identity_seed(self._seed, "choose", step, problem.id, self._offers[problem.id]) / 2**63
        accepted = draw < self.chance(problem)
        self._refused += not accepted
        return accepted

    def predicted(self, problem: Problem) -> float:
        return self._model.predict(problem).rate.mean

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        """Learn from a step, and return the numbers of problems ``offered`` and ``refused`` and the metrics of the
        pass-rate model.
        """
        offers = {"offered": float(self._offers.total()), "refused": float(self._refused)}
        self._offers, self._refused = Counter(), 0
        self._model.learn(groups)
        return offers | self._model.numbers()

    def state_dict(self) -> dict[str, Any]:
        """Return the seed and the state of the pass-rate model."""
        return {"seed": self._seed, "model": self._model.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._seed = state["seed"]
        self._model.load_state_dict(state["model"] if "model" in state else state["belief"])  # "belief" until 0.2


def token_value(predicted: Prediction, k: int = 1) -> float:
    """Return the predicted improvement of the pass@k objective per generated token, up to a factor that is equal for
    all problems.

    >>> from outrider.explore.rate import Rate
    >>> token_value(Prediction(Rate(1.0, 2.0), tokens=2.0, noise=0.5))
    0.16666666666666666
    """
    return predicted.rate.moment(1, k) / (predicted.noise * predicted.tokens) if predicted.noise else 0.0
