"""Cases of intervals along training: findings, saturation, and what entropy was exchanged for."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from _coverage import Case
from _problems import Drawn, Floats, ends, few_solvable, spread
from numpy.random import Generator

from outrider.measure.bend import find_bend
from outrider.measure.exchange import fit_exchange
from outrider.report.findings.base import LEVEL, change, level, share
from outrider.report.findings.entropy_collapse import _from_the_first

Noise = Callable[[Generator, int], Floats]
NONE = (math.nan, math.nan)


def independent(rng: Generator, n: int) -> Floats:
    return rng.normal(size=n)


def alike(rho: float, rng: Generator, n: int) -> Floats:
    """Noise of which neighbours have the correlation ``rho``, of variance 1."""
    found = np.empty(n)
    found[0] = rng.normal()
    for i in range(1, n):
        found[i] = rho * found[i - 1] + math.sqrt(1 - rho**2) * rng.normal()
    return found


NOISES: dict[str, Noise] = {
    "independent noise": independent,
    "autocorrelation 0.5": partial(alike, 0.5),
    "autocorrelation 0.9": partial(alike, 0.9),
}


# ---- findings


def _trend(steps: int, noise: Noise, rng: Generator) -> Drawn:
    values = 0.3 + 0.2 * np.arange(steps) / steps + 0.04 * noise(rng, steps)
    return {"last quarter minus first": ends(change(values)), "last quarter": ends(level(values))}


def _trend_truth(steps: int) -> dict[str, float]:
    values = 0.3 + 0.2 * np.arange(steps) / steps
    m = max(3, steps // 4)
    before, after = float(values[:m].mean()), float(values[-m:].mean())
    return {"last quarter minus first": after - before, "last quarter": after}


def _share(problems: int, rates: Callable[[Generator, int], Floats], visits: int, rng: Generator) -> Drawn:
    of = np.repeat(np.arange(problems), visits)
    found = share(rng.binomial(8, rates(rng, problems)[of]), np.full(len(of), 8), of)
    return {"share": ends(found)}


def _share_truth(rates: Callable[[Generator, int], Floats]) -> dict[str, float]:
    return {"share": float(rates(np.random.default_rng(92), 1_000_000).mean())}


def _left(steps: int, noise: Noise, rng: Generator) -> Drawn:
    fallen = np.where(np.arange(steps) < 2, 0.0, -1.6)
    low, high = ends(_from_the_first(fallen + 0.1 * noise(rng, steps)))
    return {"share of initial entropy": (math.exp(low), math.exp(high))}


# ---- saturation


def _bent(steps: int, noise: Noise, rng: Generator) -> Drawn:
    x = (np.arange(steps) + 1) / steps
    y = 0.3 + 0.5 * np.minimum(x, 0.4) + 0.02 * noise(rng, steps)
    found = find_bend(x, y, resamples=200, significance=0.01, seed=int(rng.integers(2**31)))
    if found.shape != "levels off":  # nothing is shown then
        return dict.fromkeys(("bend", "early slope", "late slope"), NONE)
    return {"bend": ends(found.bend), "early slope": ends(found.early), "late slope": ends(found.late)}


# ---- exchange


def _exchange(steps: int, noise: Noise, rng: Generator) -> Drawn:
    entropies = 0.3 + 0.7 * np.exp(-3 * np.arange(steps) / steps)
    rewards = 0.9 - 0.2 * np.exp(entropies) + 0.02 * noise(rng, steps)
    found = fit_exchange(entropies, rewards, resamples=500, seed=int(rng.integers(2**31)))
    return {"a": ends(found.a), "success at zero entropy": ends(found.ceiling)}


SHARE = (
    "The [checks in a report](findings.md) use this interval for shares, such as the share of truncated responses, or "
    "of groups in which all rollouts fail or all succeed."
)
TREND = (
    "The [checks in a report](findings.md) use this interval for a metric, such as success rate or response length, in "
    "the last quarter of the steps, and for the metric's change from the first quarter."
)
SATURATION = (
    "The finding *saturation* uses these intervals for the step at which success levels off (*bend*), and for the "
    "slopes before and after this step."
)
EXCHANGE = (
    "A report divides the steps of a run into at most 100 bins, and computes the mean entropy and the success rate of "
    "each bin. To these values, it fits the curve `success = b - a exp(entropy)`. The report gives these intervals for "
    "`a` and for success at zero entropy."
)
CURVES = [
    *(
        Case("share of a finding", SHARE, name, partial(_share_truth, rates), partial(_share, problems, rates, visits),
             nominal=round(LEVEL, 4))
        for name, problems, rates, visits in (
            ("160 problems, 1 group each", 160, spread, 1),
            ("16 problems, 10 groups each", 16, spread, 10),
            ("160 problems, 1 group each, 5 % not 0", 160, few_solvable, 1),
            ("16 problems, 10 groups each, 5 % not 0", 16, few_solvable, 10),
        )
    ),
    *(
        Case("trend of a finding", TREND, f"{steps} steps, {name}", partial(_trend_truth, steps),
             partial(_trend, steps, noise), nominal=round(LEVEL, 4))
        for steps in (24, 200)
        for name, noise in NOISES.items()
    ),
    *(
        Case("entropy left",
             "The finding *entropy collapse* uses this interval for the entropy at the end of a run, "
             "relative to the first step.",
             f"{steps} steps, {name}", lambda: {"share of initial entropy": math.exp(-1.6)},
             partial(_left, steps, noise), nominal=round(LEVEL, 4))
        for steps in (24, 200)
        for name, noise in NOISES.items()
    ),
    *(
        Case("saturation", SATURATION, f"{steps} steps, {name}",
             lambda: {"bend": 0.4, "early slope": 0.5, "late slope": 0.0}, partial(_bent, steps, noise), 500)
        for steps in (40, 150)
        for name, noise in NOISES.items()
    ),
    *(
        Case("exchange of entropy", EXCHANGE, f"100 points, {name}",
             lambda: {"a": 0.2, "success at zero entropy": 0.7}, partial(_exchange, 100, noise), 500)
        for name, noise in NOISES.items()
    ),
]  # fmt: skip
