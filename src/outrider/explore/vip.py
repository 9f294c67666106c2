"""Allocates rollouts to minimise the gradient variance (VIP). Pass rates are predicted from similar problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, PrivateAttr, model_validator

from outrider.arrays import Floats
from outrider.components import ComponentOf
from outrider.explore.allocation import Allocation
from outrider.explore.apportion import raised
from outrider.explore.corpus import question_of
from outrider.explore.embed import EMBEDDERS, Embedder, Random, Tfidf
from outrider.explore.memory import remember
from outrider.explore.outcome import pass_rate
from outrider.record import Group, Problem

Estimator = Literal["rloo", "dr_grpo"]
MOST_TEXTS = 10_000
RESOLVED = 1e-4  # relative to the largest eigenvalue; smaller eigenvalues would separate similar questions by rounding
LEAST: dict[Estimator, int] = {
    "rloo": 2,
    "dr_grpo": 3,
}  # from this number on, each additional rollout reduces the variance less than the one before


def variance(n: int, p: float, estimator: Estimator) -> float:
    """Return the variance of a problem's gradient from ``n`` rollouts, up to a common factor: ``p (1 - p) f(n)``.

    ``f(n)`` is ``1 / (n - 1)`` for ``rloo`` (baseline: mean of the other rollouts), and ``(n - 1) / n^2`` for
    ``dr_grpo`` (baseline: group mean). These formulas are VIP's theorems 5.2 and 5.1, which assume that gradients of
    log-probabilities are independent of rewards.

    >>> variance(3, 0.5, "rloo"), variance(4, 0.5, "dr_grpo")
    (0.125, 0.046875)
    """
    return p * (1 - p) * (1 / (n - 1) if estimator == "rloo" else (n - 1) / n**2)


class Vip(Allocation):
    """Allocates ``n`` rollouts per problem on average, to minimise the sum of gradient variances.

    The pass rate of a problem is predicted from its question before sampling: ``p(x) = sigmoid(g(x))``. Here ``g`` is a
    Gaussian process with mean 0 and kernel ``K(x, y) = exp(-(1 - cos(x, y)) / bandwidth^2)``, the RBF kernel of unit
    vectors. A step with questions ``B`` and pass rates ``r``, clipped to ``[epsilon, 1 - epsilon]``, updates ``g``:

        g <- g + K(., B) K(B, B)^-1 (logit r - g(B)).

    Every update uses the prior covariance ``K``, not the posterior covariance of Gaussian-process regression. Later
    pass rates therefore have as much effect as earlier ones, so predictions adapt when the policy changes. The budget,
    ``n`` times the number of problems, is then spent exactly. Every problem starts with ``min_n`` rollouts. Each
    further rollout goes to the problem below ``max_n`` whose :func:`variance` decreases most. The decreases become
    smaller with every rollout, so no other allocation has less variance. In a recipe's list ``explore``, this stage
    takes the place of ``uniform``, which samples equally many rollouts for every problem.

    The stage learns from every rollout that the verifier could score, including rollouts in dropped groups. Branches
    (continuations of other rollouts) and rollouts with hints or in-context examples are ignored. Degenerate cases: in
    the first step, and for questions unlike any earlier question, ``p`` is 1/2. Problems with equal predictions get
    equal shares. Predictions are clipped like pass rates. If questions are nearly equal, the logits of their pass rates
    are averaged, so all of them get the same prediction. For an empty batch the stage requests nothing. Problems that
    already have rollouts get no further rollouts. The last 10,000 questions are remembered; older questions have no
    effect. With the embedder ``tfidf``, ``K`` changes slightly when the remembered questions change, since they
    determine the weights of terms.

    Source: Nguyen et al. 2026, "VIP", arXiv 2602.01601. We used summaries of the paper and earlier versions of its
    code, not the paper itself. Differences: VIP's code optimises real-valued allocations by SLSQP, with a bonus for
    problems that it considers hard. It replaces allocations below 4 by 0 rollouts, adds 1e-4 to the diagonal of ``K``,
    and starts ``g`` at -5. VIP's script uses 16 rollouts per problem by default and a bandwidth of 0.4. The paper's
    bandwidth is the median distance between questions, which an endless stream of problems does not have.

    Raises:
        ValidationError: ``min_n <= n <= max_n`` does not hold, ``min_n`` is too small for the estimator, or the
            embedder is ``random``.

    >>> Vip().estimator
    'rloo'
    """

    min_n: int = Field(3, ge=2, description="minimum number of rollouts per problem in a training step")
    estimator: Estimator = Field(
        "rloo",
        description=(
            "advantage estimator whose gradient variance is minimised: leave-one-out baseline (rloo), or group mean "
            "without division by the standard deviation (dr_grpo)"
        ),
    )
    embed: Annotated[Embedder, ComponentOf(EMBEDDERS, "embedder", Embedder)] = Field(
        default_factory=Tfidf,
        description=(
            "embedder, which measures how similar two questions are; a problem's pass rate is predicted from similar "
            "questions"
        ),
    )
    bandwidth: float = Field(
        0.4,
        gt=0,
        description=(
            "bandwidth of the RBF kernel over question embeddings; with larger values, less similar questions also "
            "influence a predicted pass rate"
        ),
    )
    epsilon: float = Field(
        0.05,
        gt=0,
        lt=0.5,
        description=(
            "margin for clipping pass rates: observed and predicted pass rates are clipped to [epsilon, 1 - epsilon]"
        ),
    )

    _seen: dict[str, tuple[str, float]] = PrivateAttr(default_factory=dict)
    _predicted: dict[str, float] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _estimator_and_likeness(self) -> Vip:
        if self.min_n < LEAST[self.estimator]:
            raise ValueError(
                f"min_n is {self.min_n}, but with {self.estimator} it must be at least {LEAST[self.estimator]}: "
                "below that, a further rollout may increase the variance"
            )
        if isinstance(self.embed, Random):
            raise ValueError(
                "embed is random, which is not a similarity: it is not symmetric; use tfidf or transformer"
            )
        return self

    def prepare(self) -> None:
        self.embed.prepare()

    def counts(self, problems: Sequence[Problem], ties: Sequence[int]) -> list[int]:
        rates = self.predict([question_of(problem) for problem in problems])

        def taken_off(i: int, n: int) -> float:
            return variance(n, rates[i], self.estimator) - variance(n + 1, rates[i], self.estimator)

        self._predicted = dict(zip((p.id for p in problems), rates, strict=True))
        self._numbers = {
            "known": float(sum(p.id in self._seen for p in problems)),
            "predicted": float(np.mean(rates)) if rates else float("nan"),
            "spread": float(np.std(rates)) if rates else float("nan"),
        }
        room = (self.n - self.min_n) * len(problems)
        return raised([self.min_n] * len(problems), room, self.max_n, taken_off, ties)

    def predict(self, questions: Sequence[str]) -> list[float]:
        """Return each question's predicted pass rate, independently of the other entries of ``questions``."""
        latents = np.zeros(len(questions)) if not self._seen or not questions else self._rows(questions)[1]
        return [float(p) for p in np.clip(1 / (1 + np.exp(-latents)), self.epsilon, 1 - self.epsilon)]

    def _rows(self, questions: Sequence[str]) -> tuple[Floats, Floats]:
        """Return the kernel between the questions and all remembered questions, and the predicted logit of each
        question's pass rate."""
        cosines = self.embed.cosines(questions, [text for text, _ in self._seen.values()]).astype(np.float64)
        kernel = np.exp((cosines - 1) / self.bandwidth**2)
        return kernel, (kernel * [share for _, share in self._seen.values()]).sum(1)

    def predicted(self, problem: Problem) -> float | None:
        return self._predicted.get(problem.id)

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        """Learn from a step and return its metrics.

        ``off`` is the mean absolute error of predicted pass rates; ``remembered`` is the number of remembered
        questions.
        """
        rates = {}
        for group in sorted(groups, key=lambda group: group.problem.id):  # so that batch order does not matter
            if (rate := pass_rate(group)) is not None:
                rates[group.problem.id] = rate
                _, share = self._seen.get(group.problem.id, ("", 0.0))
                remember(self._seen, group.problem.id, (question_of(group.problem), share), MOST_TEXTS)
        if rates:
            self._learn(rates)
        off = [abs(rate - self._predicted[key]) for key, rate in rates.items() if key in self._predicted]
        self._predicted = {}
        return self._numbers | {
            "off": float(np.mean(off)) if off else float("nan"),
            "remembered": float(len(self._seen)),
        }

    def _learn(self, rates: Mapping[str, float]) -> None:
        kept = {key: rate for key, rate in rates.items() if key in self._seen}
        places = {key: place for place, key in enumerate(self._seen)}
        kernel, latents = self._rows([self._seen[key][0] for key in kept])
        among = kernel[:, [places[key] for key in kept]]
        cut = np.clip(list(kept.values()), self.epsilon, 1 - self.epsilon)
        shares = np.linalg.pinv(among, RESOLVED, hermitian=True) @ (np.log(cut / (1 - cut)) - latents)
        for key, share in zip(kept, shares, strict=True):
            text, before = self._seen[key]
            self._seen[key] = text, before + float(share)

    def state_dict(self) -> dict[str, Any]:
        """Return each question with its weight in the prediction, oldest first."""
        return {"seen": [[key, *entry] for key, entry in self._seen.items()]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._seen = {key: (text, share) for key, text, share in state["seen"]}
