"""Predicts a problem's pass rate, response length and gradient noise from its difficulty level and earlier outcomes."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum, nan
from typing import Any, NamedTuple

import numpy as np

from outrider.explore.memory import remember
from outrider.explore.outcome import first_pass
from outrider.explore.rate import Rate
from outrider.explore.recalibration import Recalibration
from outrider.record import Group, Problem, Rollout

MEMORIES = (0.5, 0.7, 0.85, 0.93, 0.97, 1.0)
"""Candidate discounts of past evidence per step; the one that predicts best is used."""
SCORE_DISCOUNT = 0.95
"""Discount per step of the log-likelihoods by which the discounts in ``MEMORIES`` are compared."""
MIN_WITHIN_VARIANCE, MAX_WITHIN_VARIANCE = 0.02, 0.98
"""Bounds on the share of a level's verdict variance that lies within problems; the rest is variance between
problems."""
MIN_WEIGHT = 1e-9
"""Minimum discounted number of a level's rollouts; below it, the level's response length and noise count as unknown."""
CLASSES = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2)
"""Upper bounds of the classes of predicted pass rates that calibration reports."""


Own = tuple[int, tuple[tuple[float, float], ...]]
"""History of a problem: the step of its last visit, and discounted successes and failures for each discount in
``MEMORIES``."""


class Prediction(NamedTuple):
    """Predictions for a problem: pass rate, tokens per rollout, and gradient :func:`noise` per rollout."""

    rate: Rate
    tokens: float
    noise: float


class CalibrationStats(NamedTuple):
    """Predicted and observed successes, summed over problems.

    Attributes:
        rollouts: number of rollouts.
        expected: predicted number of successes.
        variance: predicted variance of the number of successes, given that a problem's rollouts share an unknown pass
            rate.
        successes: observed number of successes.
    """

    rollouts: float = 0.0
    expected: float = 0.0
    variance: float = 0.0
    successes: float = 0.0

    @staticmethod
    def of(rate: Rate, successes: int, failures: int) -> CalibrationStats:
        """Return the statistics of one problem. The predicted mean and variance are those of a beta-binomial
        distribution.

        >>> [round(x, 3) for x in CalibrationStats.of(Rate(1.0, 1.0), 2, 0)]  # 0, 1 and 2 successes are equally likely
        [2.0, 1.0, 0.667, 2.0]
        """
        n = successes + failures
        variance = n * rate.moment(1, 1) * (rate.a + rate.b + n) / (rate.a + rate.b)
        return CalibrationStats(float(n), n * rate.mean, variance, float(successes))


class Visits(NamedTuple):
    """Discounted sums over the visits to one difficulty level; a visit is one group sampled at that level.

    Attributes:
        visits: number of visits.
        rates: sum of the visits' pass rates.
        pairs: number of visits with two or more rollouts.
        spreads: sum of the unbiased estimates of ``p (1 - p)`` from visits with two or more rollouts.
        rollouts: number of rollouts in all visits.
        tokens: tokens of all rollouts.
        noises: sum of all rollouts' gradient noise (:func:`noise`).
    """

    visits: float = 0.0
    rates: float = 0.0
    pairs: float = 0.0
    spreads: float = 0.0
    rollouts: float = 0.0
    tokens: float = 0.0
    noises: float = 0.0

    def discounted(self, share: float) -> Visits:
        return Visits(*(share * each for each in self))

    def joined(self, other: Visits) -> Visits:
        return Visits(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def costs(self) -> tuple[float, float]:
        """Mean number of tokens per rollout (at least 1), and mean noise per rollout."""
        return (max(self.tokens / self.rollouts, 1.0), self.noises / self.rollouts) if self.rollouts else (1.0, 1.0)

    @property
    def prior(self) -> Rate:
        """The pass-rate distribution of a problem without a history, by the method of moments.

        One imaginary problem whose pass rate has the distribution ``Beta(1, 1)`` is added to the observed problems.

        >>> [round(x, 6) for x in Visits().prior]
        [1.0, 1.0]
        """
        mean, spread = (self.rates + 0.5) / (self.visits + 1), (self.spreads + 1 / 6) / (self.pairs + 1)
        # within-problem share of the verdict variance: m / (m + 1) for Beta with a + b = m
        within = min(max(spread / (mean * (1 - mean)), MIN_WITHIN_VARIANCE), MAX_WITHIN_VARIANCE)
        m = within / (1 - within)
        return Rate(mean * m, (1 - mean) * m)


class Visit(NamedTuple):
    """A problem's results in one step: sums over its rollouts from the prompt alone, without prefix, hint or example
    (:func:`~outrider.explore.outcome.first_pass`). There is at least one such rollout."""

    problem: Problem
    successes: int
    failures: int
    tokens: int
    noise: float

    @staticmethod
    def of(group: Group) -> Visit | None:
        """Return a group's results, or None if the group has no scored rollout from the problem's plain prompt."""
        rollouts = first_pass(group)
        successes = sum(r.success for r in rollouts)
        tokens = sum(r.trainable_tokens for r in rollouts)
        if not rollouts:
            return None
        return Visit(group.problem, successes, len(rollouts) - successes, tokens, fsum(noise(r) for r in rollouts))

    @property
    def level(self) -> Visits:
        """Return a :class:`Visits` with this visit alone."""
        n = self.successes + self.failures
        spread = self.successes * self.failures / (n * (n - 1)) if n > 1 else 0.0
        return Visits(1.0, self.successes / n, float(n > 1), spread, float(n), float(self.tokens), self.noise)


def noise(rollout: Rollout) -> float:
    r"""Return the gradient noise of a rollout: :math:`\sum_t 1 - \pi(y_t)` over its trainable tokens.

    Its expectation equals the expected squared norm of the rollout's score with respect to the logits, :math:`\sum_t
    \lVert e_{y_t} - \pi_t \rVert^2`: at each token, which has its own logits, both are :math:`1 - \sum_v \pi_{tv}^2`.
    The gradient noise of a rollout grows about linearly with its number of tokens.
    """
    logprobs_T = rollout.logprobs_T if rollout.trainable_T is None else rollout.logprobs_T[rollout.trainable_T]
    return float(-np.expm1(logprobs_T.astype(np.float64)).sum())


@dataclass
class PassRateModel:
    """Predicts problems' pass rates, response lengths and gradient noise, and learns from each step.

    The predicted pass rate of a problem is a beta distribution: the prior of its difficulty level plus the problem's
    own successes and failures. Evidence that is ``t`` steps old has weight ``memory^t``. Since it is unknown how fast
    the policy changes, ``memory`` is chosen from :data:`MEMORIES`: the value under which the outcomes so far were most
    likely, with more weight on recent outcomes. A :class:`~outrider.explore.recalibration.Recalibration` corrects the
    remaining errors. They come from the policy's progress since a problem was last sampled, and from differences
    between problems of one difficulty level.

    The rollouts of all exploration stages count alike, except that rollouts with a prefix, hint or example are ignored.
    A stage such as ``rebalance`` adds rollouts for problems with few successes. These rollouts correct pass rates that
    are too low by chance, but nothing corrects those that are too high. Predicted pass rates of difficulty levels are
    then slightly too high. Histories are stored for at most 100,000 problems, but statistics for every level, so a task
    should have few levels.

    Attributes:
        memory: the discount per step currently in use.
        surprise: mean negative log-likelihood per rollout in the last step, in nats.
        recalibration: the correction applied to predicted pass rates.
        calibration: predicted and observed successes in the last step, by class of predicted pass rate
            (:data:`CLASSES`).
    """

    surprise: float = field(default=nan, compare=False)
    recalibration: Recalibration = field(default_factory=Recalibration)
    calibration: list[CalibrationStats] = field(
        default_factory=lambda: [CalibrationStats()] * (len(CLASSES) + 1), compare=False
    )
    _levels: dict[str, tuple[Visits, ...]] = field(default_factory=dict)
    _own: dict[str, Own] = field(default_factory=dict)
    _scores: list[float] = field(default_factory=lambda: [0.0] * len(MEMORIES))
    _steps: int = 0

    @property
    def memory(self) -> float:
        return MEMORIES[self._best]

    @property
    def _best(self) -> int:
        return max(range(len(MEMORIES)), key=lambda i: (self._scores[i], i))

    def predict(self, problem: Problem) -> Prediction:
        """Return the current prediction for a problem.

        A level without rollouts uses the mean tokens and noise over all levels; if no level has rollouts, tokens and
        noise are 1.
        """
        return Prediction(self.recalibration.of(self._rate(problem, self._best)), *self._costs(problem.level))

    def levels(self) -> list[Prediction]:
        """Return the prediction for a new problem of each level seen so far."""
        known = {level: sums[self._best].prior for level, sums in self._levels.items()}
        return [Prediction(self.recalibration.of(prior), *self._costs(level)) for level, prior in known.items()]

    def _costs(self, level: str) -> tuple[float, float]:
        """Return a level's tokens and noise per rollout. If the level has fewer than ``MIN_WEIGHT`` rollouts, return
        the means over all levels.
        """
        sums = self._levels[level][self._best] if level in self._levels else Visits()
        if sums.rollouts < MIN_WEIGHT:
            known = [each[self._best] for each in self._levels.values()]
            sums = Visits(*(fsum(part) for part in zip(*known, strict=True)))
        return sums.costs

    def _rate(self, problem: Problem, which: int) -> Rate:
        sums = self._levels.get(problem.level)
        prior = sums[which].prior if sums else Visits().prior
        if problem.id not in self._own:
            return prior
        seen, history = self._own[problem.id]
        kept = MEMORIES[which] ** (self._steps - seen)
        return Rate(prior.a + kept * history[which][0], prior.b + kept * history[which][1])

    def learn(self, groups: Sequence[Group]) -> None:
        """Learn from the groups of a step."""
        found = [Visit.of(group) for group in sorted(groups, key=lambda group: group.problem.id)]
        visits = [visit for visit in found if visit is not None]
        self._calibrate(visits)
        self._score(visits)
        self._steps += 1
        for level in {visit.problem.level for visit in visits} | set(self._levels):
            old = self._levels.get(level, (Visits(),) * len(MEMORIES))
            self._levels[level] = tuple(sums.discounted(share) for sums, share in zip(old, MEMORIES, strict=True))
        for visit in visits:
            key, level = visit.problem.id, visit.problem.level
            self._levels[level] = tuple(sums.joined(visit.level) for sums in self._levels[level])
            seen, history = self._own.get(key, (self._steps, ((0.0, 0.0),) * len(MEMORIES)))
            kept = [memory ** (self._steps - seen) for memory in MEMORIES]
            joined = [
                (share * successes + visit.successes, share * failures + visit.failures)
                for share, (successes, failures) in zip(kept, history, strict=True)
            ]
            remember(self._own, key, (self._steps, tuple(joined)))

    def _score(self, visits: Sequence[Visit]) -> None:
        """Update the score of each candidate discount in :data:`MEMORIES`. The score is the log-likelihood of all
        steps' outcomes under this discount, with less weight on older steps (:data:`SCORE_DISCOUNT`)."""
        likelihoods = [
            fsum(self._rate(v.problem, i).log_chance(v.successes, v.failures) for v in visits)
            for i in range(len(MEMORIES))
        ]
        self._scores = [SCORE_DISCOUNT * old + new for old, new in zip(self._scores, likelihoods, strict=True)]

    def _calibrate(self, visits: Sequence[Visit]) -> None:
        """Compare predictions with verdicts. Fit the recalibration to problems whose difficulty level occurred in
        earlier steps."""
        self.calibration, surprises, known = [CalibrationStats()] * (len(CLASSES) + 1), [], []
        for visit in visits:
            raw, ends = self._rate(visit.problem, self._best), (visit.successes, visit.failures)
            rate = self.recalibration.of(raw)
            place = bisect(CLASSES, rate.mean)
            both = zip(self.calibration[place], CalibrationStats.of(rate, *ends), strict=True)
            self.calibration[place] = CalibrationStats(*(a + b for a, b in both))
            surprises.append(-rate.log_chance(*ends))
            if visit.problem.level in self._levels:
                known.append((raw, *ends))
        rollouts = fsum(each.rollouts for each in self.calibration)
        self.surprise = fsum(surprises) / rollouts if rollouts else nan
        self.recalibration.learn(known)

    def numbers(self) -> dict[str, float]:
        """Return a step's metrics.

        The metrics are the attributes ``surprise`` and ``memory``, and three numbers of the recalibration: ``slope``,
        ``shift`` and ``taken``. ``taken`` is the factor by which the recalibration's last Newton step was multiplied to
        limit its size (1: no limit needed). For each class i of predicted pass rates, ``calibration_i_…`` are the
        fields of :class:`CalibrationStats`.
        """
        by_class = {
            f"calibration_{i}_{name}": value
            for i, each in enumerate(self.calibration)
            for name, value in each._asdict().items()
        }
        found = self.recalibration
        now = {"memory": self.memory, "slope": found.slope, "shift": found.shift, "taken": found.taken}
        return {"surprise": self.surprise} | now | by_class

    def state_dict(self) -> dict[str, Any]:
        """Return the model's state; problems are ordered by their last visit, oldest first."""
        levels = {level: [list(each) for each in sums] for level, sums in sorted(self._levels.items())}
        own = [[key, seen, [list(past) for past in history]] for key, (seen, history) in self._own.items()]
        recalibration = self.recalibration.state_dict()
        return {
            "steps": self._steps, "scores": self._scores, "recalibration": recalibration, "levels": levels, "own": own,
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._steps, self._scores = state["steps"], list(state["scores"])
        self.recalibration.load_state_dict(state["recalibration"])
        self._levels = {level: tuple(Visits(*each) for each in sums) for level, sums in state["levels"].items()}
        self._own = {key: (seen, tuple((past[0], past[1]) for past in history)) for key, seen, history in state["own"]}
