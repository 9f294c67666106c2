"""Cases of intervals over problems: evaluations and their changes, groups of training, tokens, correlations, bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from _coverage import Case
from _problems import MANY, POPULATIONS, Counts, Drawn, Floats, Population, ends, improved, sampled, spread, tallies
from numpy.random import Generator

from outrider.measure import bootstrap_mean, compare, pass_at_k
from outrider.measure.difficulty import cumulative_advantage
from outrider.measure.diversity import distinct_at_k
from outrider.measure.evaluation import of_tallies
from outrider.measure.groups import means_by_group
from outrider.measure.shift import largest_by_group, rank_correlation
from outrider.measure.unsolvable import pass_rate_bound

N = 16  # samples of a problem
RESAMPLES = 1000  # the pages take 2,000, or fewer
KS = (1, 4, 16)


def _all_counts(population: Population) -> tuple[Floats, Counts, Counts]:
    rng = np.random.default_rng(99)
    p = population.rates(rng, MANY)
    hard = rng.normal(size=MANY)
    return p, sampled(rng, p, N, hard), sampled(rng, improved(rng, p), N, hard)


def _evaluation_truth(population: Population) -> dict[str, float]:
    p, counts, _ = _all_counts(population)
    exact = {f"pass@{k}": float((1 - (1 - p) ** k).mean()) for k in KS}
    return exact | {"greedy": float(p.mean()), "majority": float(counts.majority.mean())}


def _evaluation(population: Population, rng: Generator) -> Drawn:
    p = population.rates(rng, population.problems)
    found = of_tallies(tallies(sampled(rng, p, N), N), RESAMPLES, seed=int(rng.integers(2**31))).overall
    named = {f"pass@{k}": found.pass_at[k] for k in KS}
    return {name: ends(i) for name, i in {**named, "greedy": found.greedy, "majority": found.majority}.items()}


def _change_truth(population: Population) -> dict[str, float]:
    rng = np.random.default_rng(98)
    p = population.rates(rng, MANY)
    q = improved(rng, p)
    _, before, after = _all_counts(population)
    exact = {f"pass@{k}": float(((1 - p) ** k - (1 - q) ** k).mean()) for k in KS}
    entropy = after.nats.sum() / after.tokens.sum() - before.nats.sum() / before.tokens.sum()
    majority = float(after.majority.mean() - before.majority.mean())
    return exact | {"greedy": float((q - p).mean()), "majority": majority, "entropy": float(entropy)}


def _change(population: Population, rng: Generator) -> Drawn:
    p = population.rates(rng, population.problems)
    hard = rng.normal(size=len(p))
    sides = [of_tallies(tallies(sampled(rng, each, N, hard), N), resamples=0) for each in (p, improved(rng, p))]
    after = replace(sides[1], resamples=RESAMPLES, seed=int(rng.integers(2**31)))  # a change resamples as its second
    found = compare(sides[0], after).overall
    named = {f"pass@{k}": found.pass_at[k] for k in KS}
    others = {"greedy": found.greedy, "majority": found.majority, "entropy": found.entropy}
    return {name: ends(i) for name, i in {**named, **others}.items()}


VISITS = {
    "30 problems, 10 groups each": (30, lambda rng, p: np.full(len(p), 10)),
    "60 problems, 1 to 8 groups each": (60, lambda rng, p: 1 + rng.binomial(7, 0.4, len(p))),
    "60 problems, more groups for hard ones": (60, lambda rng, p: 1 + rng.binomial(9, 1 - p)),
    "200 problems, 1 group each": (200, lambda rng, p: np.ones(len(p), int)),
}


Visits = Callable[[Generator, Floats], Any]


def _visits_truth(visits: Visits) -> dict[str, float]:
    rng = np.random.default_rng(97)
    p = spread(rng, MANY)
    weight = visits(rng, p)
    return {f"pass@{k}": float((weight * (1 - (1 - p) ** k)).sum() / weight.sum()) for k in (1, 8)}


def _visits(problems: int, visits: Visits, together: bool, rng: Generator) -> Drawn:
    p = spread(rng, problems)
    of = np.repeat(np.arange(problems), visits(rng, p))
    correct = rng.binomial(8, p[of])
    found = {
        k: bootstrap_mean(
            pass_at_k(8, correct, k), RESAMPLES, int(rng.integers(2**31)), problems_P=of if together else None
        )
        for k in (1, 8)
    }
    return {f"pass@{k}": ends(interval) for k, interval in found.items()}


def _answers(problems: int, rng: Generator) -> Drawn:
    found = [distinct_at_k([str(a) for a in _zipf(rng, skew)], 8) for skew in rng.uniform(0, 3, problems)]
    return {
        "distinct@8": ends(bootstrap_mean(found, RESAMPLES, int(rng.integers(2**31)))),
        "novelty": ends(bootstrap_mean(rng.beta(8, 0.5, problems), RESAMPLES, int(rng.integers(2**31)))),
    }


def _zipf(rng: Generator, skew: float) -> Any:
    chances = np.arange(1, 31.0) ** -skew
    return rng.choice(30, N, p=chances / chances.sum())


def _answers_truth() -> dict[str, float]:
    chances = np.arange(1, 31.0)[None, :] ** -np.linspace(0, 3, 4001)[:, None]
    chances /= chances.sum(axis=1, keepdims=True)
    return {"distinct@8": float((1 - (1 - chances) ** 8).sum(axis=1).mean()), "novelty": 8 / 8.5}


def _responses(rng: Generator, problems: int, each: int = 4) -> tuple[Floats, Floats, Floats, Floats]:
    """Problem, length, and mean value of the first and of the second half, of each response."""
    of = np.repeat(np.arange(problems), each)
    hard = rng.normal(size=problems)[of]
    length = 2 + rng.poisson(np.exp(2 + 0.5 * hard + 0.3 * rng.normal(size=len(of))))
    level = 0.4 + 0.1 * hard + 0.05 * rng.normal(size=len(of))
    return of, length, level, level - 0.1 - 0.05 * rng.normal(size=len(of))


def _tokens(problems: int, rng: Generator) -> Drawn:
    of, length, first, second = _responses(rng, problems)
    owners = np.repeat(np.arange(len(of)), length)
    at = np.arange(len(owners)) - np.repeat(np.cumsum(length) - length, length)
    half = (at >= np.repeat(length // 2, length)).astype(int)
    values = np.where(half, second[owners], first[owners]) + rng.normal(0, 0.3, len(owners))
    profile = means_by_group(values, half, owners, ["first half", "second half"])
    profile = profile.over_problems(of, RESAMPLES, int(rng.integers(2**31)))
    change = profile.difference("first half", "second half")
    return {"mean of the first half": ends(profile["first half"]), "second half minus first": ends(change)}


def _tokens_truth() -> dict[str, float]:
    _, length, first, second = _responses(np.random.default_rng(95), MANY, 1)
    early, late = length // 2, length - length // 2
    one, other = (first * early).sum() / early.sum(), (second * late).sum() / late.sum()
    return {"mean of the first half": float(one), "second half minus first": float(other - one)}


def _changes(rng: Generator, problems: int) -> tuple[Floats, Floats, Floats]:
    of = np.repeat(np.arange(problems), 4)
    lengths = 5 + rng.poisson(np.exp(2 + 0.4 * rng.normal(size=problems)[of]))
    owners = np.repeat(np.arange(len(of)), lengths)
    size = 0.1 * np.exp(0.8 * rng.normal(size=problems)[of][owners] + 0.5 * rng.normal(size=len(owners)))
    return of, lengths, size


def _largest(problems: int, rng: Generator) -> Drawn:
    of, lengths, size = _changes(rng, problems)
    unsure = (rng.random(len(size)) < 0.2).astype(int)
    size = size * (1 + unsure)
    found = largest_by_group(size, lengths, unsure, ["sure", "unsure"])
    return {"uncertain tokens": ends(found.over_problems(of, RESAMPLES, int(rng.integers(2**31)))["unsure"])}


def _largest_truth() -> dict[str, float]:
    rng = np.random.default_rng(94)
    _, _, size = _changes(rng, MANY // 100)
    unsure = rng.random(len(size)) < 0.2
    size = size * (1 + unsure)
    return {"uncertain tokens": float((size[unsure] > np.quantile(size, 0.8)).mean())}


def _correlation(problems: int, rng: Generator) -> Drawn:
    of = np.repeat(np.arange(problems), 4)
    shared, own = rng.multivariate_normal([0, 0], [[1, 0.4], [0.4, 1]], size=(2, len(of)))
    x, y = (np.sqrt(0.5) * shared[of] + np.sqrt(0.5) * own).T
    return {"Spearman": ends(rank_correlation(x, y, 300, int(rng.integers(2**31)), problems_R=of))}


def _bound(population: Population, rng: Generator) -> Drawn:
    """Of one problem that ``N`` samples did not solve, less its pass rate: 0 is the truth for all of them."""
    while True:
        p = population.rates(rng, 64)
        missed = p[rng.binomial(N, p) == 0]
        if len(missed):
            return {"pass rate": (-float(missed[0]), float(pass_rate_bound(N)) - float(missed[0]))}


def _weights(problems: int, rng: Generator) -> Drawn:
    of = np.repeat(np.arange(problems), 3)
    groups = np.arange(len(of))
    size = 8 + 8 * (rng.random(problems) < 0.3)[of]  # the planner gives some problems twice as much
    correct = rng.random(size.sum()) < spread(rng, problems)[of].repeat(size)
    group_R, counted = groups.repeat(size), np.concatenate([np.arange(n) < 8 for n in size])
    mean = np.bincount(group_R, correct) / size
    found = cumulative_advantage(group_R, correct, correct - mean[group_R], counted, 8, of.repeat(size))
    half = 1.96 * found.error_B[4]  # 3 or 4 of 8
    return {"weight at one half": (found.weight_B[4] - half, found.weight_B[4] + half)}


def _weights_truth() -> dict[str, float]:
    rng = np.random.default_rng(93)
    p, size = spread(rng, MANY), 8 + 8 * (rng.random(MANY) < 0.3)
    first = rng.binomial(8, p)
    u = (first + rng.binomial(size - 8, p)) / size
    at = first == 4
    return {"weight at one half": float((2 * size * u * (1 - u))[at].mean())}


def _same(value: dict[str, float]) -> Callable[[], dict[str, float]]:
    return lambda: value


EVALUATION = (
    "These are the intervals in tables of evaluations, in the section `frontier` of a report or comparison, and in "
    "`outrider score`."
)
CHANGE = (
    "These are the intervals of the difference between two evaluations. Training prints them, and reports and "
    "comparisons contain them. A report also uses them to check whether pass@k falls during training."
)
GROUPS = (
    "The report's section `frontier` uses these intervals if a run has no evaluation. A group is all rollouts of one "
    "problem in one step, and a problem may have groups in several steps."
)
DIVERSITY = "The page that `outrider compare` writes has these intervals in its section `diversity`."
TOKENS = (
    "Reports and analyses use these intervals for means over groups of tokens, such as the mean entropy of the "
    "tokens at one position. Groups are formed by position, outcome, entropy and category (such as *number*). The "
    "mean branching factor (number of likely next tokens) also has such an interval."
)
BOUND = (
    "A report's table *Problems without any success* uses this one-sided interval, and so does a comparison's section "
    "on unsolved problems."
)
PROBLEMS = [
    *(
        Case("evaluation", EVALUATION, name, partial(_evaluation_truth, of), partial(_evaluation, of))
        for name, of in POPULATIONS.items()
    ),
    *(
        Case("change", CHANGE, name, partial(_change_truth, of), partial(_change, of), 1000)
        for name, of in POPULATIONS.items()
    ),
    *(
        Case("groups of training", GROUPS, name, partial(_visits_truth, v), partial(_visits, problems, v, True))
        for name, (problems, v) in VISITS.items()
    ),
    Case(
        "groups of training",
        GROUPS,
        "30 problems, 10 groups each, *groups resampled* (old method)",
        partial(_visits_truth, VISITS["30 problems, 10 groups each"][1]),
        partial(_visits, 30, VISITS["30 problems, 10 groups each"][1], False),
    ),
    *(
        Case("answers and texts", DIVERSITY, f"{n} problems", _answers_truth, partial(_answers, n))
        for n in (100, 20)
    ),
    *(
        Case("tokens", TOKENS, f"{n} problems, 4 responses each", _tokens_truth, partial(_tokens, n))
        for n in (100, 12)
    ),
    *(
        Case("tokens among the largest changes",
             "A report on `outrider analyse shift` selects the 20 % of all tokens whose probability changed most. For "
             "each group of tokens, such as those of high entropy (*uncertain tokens*), it gives the share of the "
             "group that is selected, with this interval.",
             f"{n} problems, 4 responses each",
             _largest_truth, partial(_largest, n), 400)
        for n in (100, 12)
    ),
    *(
        Case("rank correlation",
             "`outrider analyse shift` uses this interval for the rank correlation between a response's perplexity and "
             "the mean absolute change of its tokens' probabilities.",
             f"{n} problems, 4 responses each", _same({"Spearman": 6 / math.pi * math.asin(0.4 / 2)}),
             partial(_correlation, n), 300)
        for n in (100, 12)
    ),
    *(
        Case("bound on a pass rate", BOUND, f"0 of {N} samples correct, {name}", _same({"pass rate": 0.0}),
             partial(_bound, of))
        for name, of in {
            "spread pass rates": POPULATIONS["200 problems"],
            "5 % solvable": POPULATIONS["100 problems, 5 % solvable"],
            "every pass rate 0.2": Population(64, lambda rng, n: np.full(n, 0.2)),
        }.items()
    ),
    *(
        Case("weight of a group",
             "A report's figure *Learning signal by success rate* sums the absolute advantages of each group, and "
             "uses this interval for the mean of these sums over groups. The interval is ±1.96 standard errors.",
             f"{n} problems, 3 groups each", _weights_truth, partial(_weights, n))
        for n in (200, 30)
    ),
]  # fmt: skip
