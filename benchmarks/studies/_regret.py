"""Problems of known pass rates, planners that do not know them, and one who does: what ``regret.py`` compares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrider.explore import Choose, Cures, Invest, Knapsack, Prioritise, Rebalance, Stage, Uniform, Vip
from outrider.explore.explorer import Explorer
from outrider.explore.pass_rate_model import PassRateModel, Prediction
from outrider.explore.rate import Rate
from outrider.explore.stream import ProblemStream
from outrider.record import Outcome, Problem, Rollout, SampleRequest, StopReason, Verdict, identity_seed
from outrider.tasks.epochs import permutation

Column = NDArray[np.float64]

STEPS, PROBLEMS, BEGIN, DRIFT = 100, 32, 10, 0.011
PLANNERS: dict[str, Callable[[], Sequence[Stage]]] = {
    "uniform": lambda: [Uniform(n=8)],
    "DARS": lambda: [Uniform(n=8), Rebalance(n_max=32)],
    "XRPO": lambda: [Uniform(n=4), Prioritise(total=8 * PROBLEMS)],
    "CurES": lambda: [Cures(n=8)],
    "VIP": lambda: [Vip(n=8)],
    "Knapsack": lambda: [Knapsack(n=8)],
    "invest": lambda: [Invest(n=8)],
    "choose": lambda: [Choose(), Uniform(n=8)],
}
KNOWS = "choose, which knows"
SURE = 1e9  # a beta distribution that is a point


class Kind(NamedTuple):
    """A level: the beta distribution of its pass rates, tokens of a response, and its noise."""

    a: float
    b: float
    tokens: int
    noise: float


LEVELS = {"3": Kind(0.358, 1.009, 21, 2.15), "4": Kind(0.257, 3.871, 37, 4.32), "5": Kind(0.197, 9.419, 57, 7.71),
          "6": Kind(0.128, 21.877, 75, 9.80)}  # fmt: skip


@cache
def _begun(problem_id: str, kind: Kind, seed: int) -> float:
    """The pass rate of a problem before training."""
    rate = np.random.default_rng(identity_seed("rate", seed, problem_id)).beta(kind.a, kind.b)
    return float(np.clip(rate, 1e-9, 1 - 1e-9))


class Simulated(NamedTuple):
    """What a planner has made of its tokens.

    Attributes:
        variance, known: of its allocation and of the best one, as shares of uniform's at the same tokens.
        gain: :func:`gain` of a step.
    """

    variance: float
    known: float
    gain: float


class Simulation:
    """Problems, and what becomes of rollouts."""

    def __init__(self, pool: int | None, seed: int) -> None:
        self._pool, self._seed, self._draws, self.step = pool, seed, np.random.default_rng(seed), 0

    def train(self, index: int) -> Problem:
        if self._pool is not None:
            epoch, position = divmod(index, self._pool)
            index = int(permutation(self._seed, epoch, self._pool)[position])
        level = [*LEVELS][identity_seed("level", self._seed, index) % len(LEVELS)]
        return Problem(f"p{index}", f"problem {index} of {level} numbers", level=level)

    def rate(self, problem: Problem) -> float:
        """The pass rate at this step."""
        return float(1 / (1 + (1 / self._begun(problem) - 1) * np.exp(-DRIFT * self.step)))

    def _begun(self, problem: Problem) -> float:
        return _begun(problem.id, LEVELS[problem.level], self._seed)

    def encode(self, problem: Problem) -> NDArray[np.int32]:
        return np.zeros(1, np.int32)

    def draw(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
        drawn = [(request, self._draws.random(request.n) < self.rate(request.problem)) for request in requests]
        return [self._rollout(request, i, success) for request, ends in drawn for i, success in enumerate(ends)]

    def _rollout(self, request: SampleRequest, index: int, success: bool) -> Rollout:
        _, _, tokens, noise = LEVELS[request.problem.level]
        logprobs_T = np.full(tokens, np.log1p(-noise / tokens), np.float32)
        assert request.prompt_ids is not None
        rollout = Rollout(
            problem_id=request.problem.id, group_id=request.group_id, member=request.first_member + index,
            prompt_ids=request.prompt_ids, token_ids=np.zeros(tokens, np.int32), prefix_ids=np.zeros(0, np.int32),
            logprobs_T=logprobs_T, seed=0, stop=StopReason.STOP, stage=request.stage,
        )  # fmt: skip
        verdict = Verdict(Outcome.CORRECT if success else Outcome.INCORRECT, float(success))
        return rollout.verified(verdict, float(success))


def variance(spreads_P: Column, counts_P: Column) -> float:
    """Of the mean problem's gradient; ``spreads_P``: noise times p (1 - p)."""
    return float((spreads_P / (counts_P - 1)).mean())


def gain(rates_P: Column, noises_P: Column, prices_P: Column, counts_P: Column, weights_P: Column) -> float:
    r"""How far a step of given length takes the mean pass rate, squared, per token, where noise is most of the step.

    A rollout moves towards the goal by about :math:`p (1 - p)`, and at random by noise times that (study ``worth``),
    times its weight.

    >>> one = np.ones(1)
    >>> [gain(p * one, 2 * one, 10 * one, 8 * one, one) for p in (0.5, 0.0)]
    [0.0125, 0.0]
    """
    towards_P = weights_P * counts_P * rates_P * (1 - rates_P)
    noise = float((weights_P * towards_P) @ noises_P)
    return float(towards_P.sum() ** 2 / (noise * (counts_P @ prices_P))) if noise else 0.0


class Truth(PassRateModel):
    """The true values, in place of predictions."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__()
        self._simulation = simulation

    def predict(self, problem: Problem) -> Prediction:
        rate, kind = self._simulation.rate(problem), LEVELS[problem.level]
        return Prediction(Rate(rate * SURE, (1 - rate) * SURE), kind.tokens, kind.noise)

    def levels(self) -> list[Prediction]:
        return [Prediction(Rate(kind.a, kind.b), kind.tokens, kind.noise) for kind in LEVELS.values()]


def knowing(simulation: Simulation) -> Choose:
    """The same stage, by what is so."""
    stage = Choose()
    stage._model = Truth(simulation)
    return stage


def simulated(planner: str, pool: int | None, seed: int, steps: int = STEPS) -> Simulated:
    """Means over the steps but for the first."""
    simulation, shares = Simulation(pool, seed), []
    stages = [knowing(simulation), Uniform(n=8)] if planner == KNOWS else PLANNERS[planner]()
    explorer = Explorer(stages, ProblemStream(simulation.train), simulation, seed)  # type: ignore[arg-type]
    for simulation.step in range(1, steps + 1):
        groups, _ = explorer.explore(simulation.step, PROBLEMS, simulation.draw, (simulation.step - 1) / steps)
        rates_P = np.array([simulation.rate(group.problem) for group in groups])
        kinds = [LEVELS[group.problem.level] for group in groups]
        prices_P = np.array([kind.tokens for kind in kinds], np.float64)
        counts_P = np.array([group.size for group in groups], np.float64)
        noises_P = np.array([kind.noise for kind in kinds])
        spreads_P = noises_P * rates_P * (1 - rates_P)
        n = float(counts_P @ prices_P / prices_P.sum())  # of everybody, at these tokens
        uniform, known = variance(spreads_P, np.full(len(groups), n)), best(spreads_P, prices_P, n)
        weights_P = 1 / counts_P if planner == "invest" else np.ones(len(groups))  # its credit: problems weigh alike
        gained = gain(rates_P, noises_P, prices_P, counts_P, weights_P)
        shares.append((variance(spreads_P, counts_P) / uniform, variance(spreads_P, known) / uniform, gained))
    return Simulated(*np.mean(shares[BEGIN:], axis=0).tolist())


def best(spreads_P: Column, prices_P: Column, n: float) -> Column:
    """The allocation of the one who knows, at the price of ``n`` for everybody.

    >>> best(np.array([0.2, 0.0, 0.2]), np.array([10.0, 10.0, 40.0]), 4.0).tolist()
    [6.0, 2.0, 4.0]
    """
    counts_P, left = np.full(len(prices_P), 2.0), (n - 2) * prices_P.sum()
    while (affordable := prices_P <= left + 1e-9).any():
        gains_P = np.where(affordable, spreads_P / (counts_P * (counts_P - 1)) / prices_P, -1.0)
        i = int(gains_P.argmax())
        counts_P[i] += 1
        left -= prices_P[i]
    return counts_P
