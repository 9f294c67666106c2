"""What is believed of a problem before it is drawn: pass rate, price and noise, by its level and its own past."""

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
"""Of what a visit showed, the share that still counts a step later; which of them it is, is measured."""
SCORED = 0.95  # of how well a memory has predicted, the share that still counts a step later
ALIKE, APART = 0.98, 0.02  # pass rates within a level spread by that much of what they might, at least and at most
FADED = 1e-9
"""Rollouts of a level, less by what was forgotten, below which nothing is known of its costs any more."""
CLASSES = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2)
"""Where the classes of expected pass rates end in which what was believed is held against what came."""


Own = tuple[int, tuple[tuple[float, float], ...]]
"""A problem's own past: the step of its last visit, and successes and failures under each memory."""


class Expected(NamedTuple):
    """What is believed of a problem: its pass rate, the tokens of a rollout, and their :func:`noise`."""

    rate: Rate
    price: float
    noise: float


class Told(NamedTuple):
    """What was believed of rollouts before they were drawn, and what came; sums over problems.

    Attributes:
        rollouts: how many.
        expected: successes, by what was believed.
        variance: of that number, by the same; the rollouts of a problem share a pass rate that is not known.
        successes: those that came.
    """

    rollouts: float = 0.0
    expected: float = 0.0
    variance: float = 0.0
    successes: float = 0.0

    @staticmethod
    def of(rate: Rate, successes: int, failures: int) -> Told:
        """Of one problem: the moments of a beta-binomial number.

        >>> [round(x, 3) for x in Told.of(Rate(1.0, 1.0), 2, 0)]  # no success, one and two are alike likely
        [2.0, 1.0, 0.667, 2.0]
        """
        n = successes + failures
        variance = n * rate.moment(1, 1) * (rate.a + rate.b + n) / (rate.a + rate.b)
        return Told(float(n), n * rate.mean, variance, float(successes))


class Visits(NamedTuple):
    """What the visits of a level showed, each less by what was forgotten of it.

    Attributes:
        visits: how many.
        rates: sum of their pass rates.
        pairs: those of two rollouts or more.
        spreads: sum of their unbiased estimates of ``p (1 - p)``.
        rollouts: how many.
        tokens: of these.
        noises: sum of theirs (:func:`noise`).
    """

    visits: float = 0.0
    rates: float = 0.0
    pairs: float = 0.0
    spreads: float = 0.0
    rollouts: float = 0.0
    tokens: float = 0.0
    noises: float = 0.0

    def faded(self, share: float) -> Visits:
        return Visits(*(share * each for each in self))

    def joined(self, other: Visits) -> Visits:
        return Visits(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def costs(self) -> tuple[float, float]:
        """Tokens, at least 1, and noise of a rollout."""
        return (max(self.tokens / self.rollouts, 1.0), self.noises / self.rollouts) if self.rollouts else (1.0, 1.0)

    @property
    def prior(self) -> Rate:
        """The pass rate of a problem of which nothing else is known, by moments.

        One imagined visit with the moments of ``Beta(1, 1)`` stands beside what was seen.

        >>> [round(x, 6) for x in Visits().prior]
        [1.0, 1.0]
        """
        mean, spread = (self.rates + 0.5) / (self.visits + 1), (self.spreads + 1 / 6) / (self.pairs + 1)
        # of the variance of a verdict, the share that lies within problems: m / (m + 1) for Beta with a + b = m
        within = min(max(spread / (mean * (1 - mean)), APART), ALIKE)
        m = within / (1 - within)
        return Rate(mean * m, (1 - mean) * m)


class Visit(NamedTuple):
    """What the first pass of one step showed of a problem; at least one rollout."""

    problem: Problem
    successes: int
    failures: int
    tokens: int
    noise: float

    @staticmethod
    def of(group: Group) -> Visit | None:
        """None where no rollout from the plain prompt could be verified."""
        rollouts = first_pass(group)
        successes = sum(r.success for r in rollouts)
        tokens = sum(r.trainable_tokens for r in rollouts)
        if not rollouts:
            return None
        return Visit(group.problem, successes, len(rollouts) - successes, tokens, fsum(noise(r) for r in rollouts))

    @property
    def level(self) -> Visits:
        """Alone."""
        n = self.successes + self.failures
        spread = self.successes * self.failures / (n * (n - 1)) if n > 1 else 0.0
        return Visits(1.0, self.successes / n, float(n > 1), spread, float(n), float(self.tokens), self.noise)


def noise(rollout: Rollout) -> float:
    r"""How far a rollout moves the gradient: :math:`\sum_t 1 - \pi(y_t)` over its trainable tokens.

    Its expectation is that of the squared norm of the rollout's score with respect to the logits,
    :math:`\sum_t \lVert e_{y_t} - \pi_t \rVert^2`: of one token both are :math:`1 - \sum_v \pi_{tv}^2`, and each token
    has logits of its own. Long responses have more of it, about as they have more tokens.
    """
    logprobs_T = rollout.logprobs_T if rollout.trainable_T is None else rollout.logprobs_T[rollout.trainable_T]
    return float(-np.expm1(logprobs_T.astype(np.float64)).sum())


@dataclass
class Belief:
    """Pass rates, prices and noises of problems, learnt from the steps of a run.

    A problem has the prior of its level, plus its own successes and failures. What was seen ``t`` steps before the last
    one counts ``memory^t``. The policy moves, and how fast is not known beforehand: of :data:`MEMORIES` that one is
    believed with which the visits so far, the latest most, were the least surprising. That the policy gets better while
    nobody looks, and that problems of a level differ more than its visits show, is put right by a
    :class:`~outrider.explore.recalibration.Recalibration`.

    A problem's rollouts from its plain prompt count alike: where a later stage draws more of those of which few
    succeeded (``rebalance``, ``prioritise``), pass rates of levels come out a little too high. Levels should be few:
    the pasts of 100,000 problems are kept, and those of every level there was.

    Attributes:
        memory: the one that is believed.
        surprise: of the last step's rollouts, the mean of minus the logarithm of their chance, in nats.
        recalibration: what is done to a pass rate before it is believed.
        told: what had been believed of them, by class of expected pass rates (:data:`CLASSES`).
    """

    surprise: float = field(default=nan, compare=False)
    recalibration: Recalibration = field(default_factory=Recalibration)
    told: list[Told] = field(default_factory=lambda: [Told()] * (len(CLASSES) + 1), compare=False)
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

    def expected(self, problem: Problem) -> Expected:
        """Of a problem now. A price is at least 1; what nobody of its level has shown is that of all levels, or 1."""
        return Expected(self.recalibration.of(self._rate(problem, self._best)), *self._costs(problem.level))

    def levels(self) -> list[Expected]:
        """Of a new problem of each level that was seen."""
        known = {level: sums[self._best].prior for level, sums in self._levels.items()}
        return [Expected(self.recalibration.of(prior), *self._costs(level)) for level, prior in known.items()]

    def _costs(self, level: str) -> tuple[float, float]:
        """Price and noise of a rollout of a level, or of all where what was seen of it has faded."""
        sums = self._levels[level][self._best] if level in self._levels else Visits()
        if sums.rollouts < FADED:
            known = [each[self._best] for each in self._levels.values()]
            sums = Visits(*(fsum(part) for part in zip(*known, strict=True)))
        return sums.costs

    def _rate(self, problem: Problem, which: int) -> Rate:
        sums = self._levels.get(problem.level)
        prior = sums[which].prior if sums else Visits().prior
        if problem.id not in self._own:
            return prior
        seen, pasts = self._own[problem.id]
        kept = MEMORIES[which] ** (self._steps - seen)
        return Rate(prior.a + kept * pasts[which][0], prior.b + kept * pasts[which][1])

    def learn(self, groups: Sequence[Group]) -> None:
        """Take in what a step showed."""
        found = [Visit.of(group) for group in sorted(groups, key=lambda group: group.problem.id)]
        visits = [visit for visit in found if visit is not None]
        self._hold(visits)
        self._score(visits)
        self._steps += 1
        for level in {visit.problem.level for visit in visits} | set(self._levels):
            old = self._levels.get(level, (Visits(),) * len(MEMORIES))
            self._levels[level] = tuple(sums.faded(share) for sums, share in zip(old, MEMORIES, strict=True))
        for visit in visits:
            key, level = visit.problem.id, visit.problem.level
            self._levels[level] = tuple(sums.joined(visit.level) for sums in self._levels[level])
            seen, pasts = self._own.get(key, (self._steps, ((0.0, 0.0),) * len(MEMORIES)))
            kept = [memory ** (self._steps - seen) for memory in MEMORIES]
            joined = [
                (share * successes + visit.successes, share * failures + visit.failures)
                for share, (successes, failures) in zip(kept, pasts, strict=True)
            ]
            remember(self._own, key, (self._steps, tuple(joined)))

    def _score(self, visits: Sequence[Visit]) -> None:
        """How likely each memory took what came."""
        chances = [
            fsum(self._rate(v.problem, i).log_chance(v.successes, v.failures) for v in visits)
            for i in range(len(MEMORIES))
        ]
        self._scores = [SCORED * score + chance for score, chance in zip(self._scores, chances, strict=True)]

    def _hold(self, visits: Sequence[Visit]) -> None:
        """What is believed of them against what came; it is recalibrated by those of which something was known."""
        self.told, surprises, known = [Told()] * (len(CLASSES) + 1), [], []
        for visit in visits:
            raw, ends = self._rate(visit.problem, self._best), (visit.successes, visit.failures)
            rate = self.recalibration.of(raw)
            place = bisect(CLASSES, rate.mean)
            self.told[place] = Told(*(a + b for a, b in zip(self.told[place], Told.of(rate, *ends), strict=True)))
            surprises.append(-rate.log_chance(*ends))
            if visit.problem.level in self._levels:
                known.append((raw, *ends))
        rollouts = fsum(each.rollouts for each in self.told)
        self.surprise = fsum(surprises) / rollouts if rollouts else nan
        self.recalibration.learn(known)

    def numbers(self) -> dict[str, float]:
        """For the metrics of a step: ``surprise``, and what was told by class; ``memory``, and the ``slope`` and
        ``shift`` by which beliefs are recalibrated from now on, with the share ``taken`` of the step towards them."""
        told = {f"told_{i}_{name}": value for i, each in enumerate(self.told) for name, value in each._asdict().items()}
        found = self.recalibration
        now = {"memory": self.memory, "slope": found.slope, "shift": found.shift, "taken": found.taken}
        return {"surprise": self.surprise} | now | told

    def state_dict(self) -> dict[str, Any]:
        """Steps, scores, recalibration, sums of levels by memory, and pasts of problems, that of longest ago first."""
        levels = {level: [list(each) for each in sums] for level, sums in sorted(self._levels.items())}
        own = [[key, seen, [list(past) for past in pasts]] for key, (seen, pasts) in self._own.items()]
        recalibration = self.recalibration.state_dict()
        return {
            "steps": self._steps, "scores": self._scores, "recalibration": recalibration, "levels": levels, "own": own,
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._steps, self._scores = state["steps"], list(state["scores"])
        self.recalibration.load_state_dict(state["recalibration"])
        self._levels = {level: tuple(Visits(*each) for each in sums) for level, sums in state["levels"].items()}
        self._own = {key: (seen, tuple((past[0], past[1]) for past in pasts)) for key, seen, pasts in state["own"]}
