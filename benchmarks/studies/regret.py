"""How far from the best allocation do planners end, that of one who knows every pass rate, at equal tokens?

Problems of four levels, whose pass rates, prices and noises are those of the shipped base on wider numbers (Countdown,
``highest`` 20, ``cap`` 100: beta distributions fitted to 64 samples of each of the first 300 held-out problems, mean
tokens of a response, mean of the sum of 1 - pi(y) over them in a first step).
They come up once, or return from a pool; pass rates rise by 0.011 in the logit a step, about as in a run of GRPO there.
The stages themselves plan 100 steps of 32 problems, the first ten not counted.

What is measured of a step is the variance of the unbiased estimate of the mean problem's gradient with respect to the
logits, as ``invest`` has it: the mean over problems of noise times p (1 - p) / (n - 1), by what pass rates and noises
are. It is divided by that of the same number of rollouts for everybody at as many tokens as were spent, so 1 is
uniform. The one who knows spends the same tokens, rollout by rollout where they take most off; everybody gets two at
least. So ``invest`` is measured in an environment that matches its model: beta distributions, noises that do not depend
on the end of a response. Counts of DARS and XRPO depend on how rollouts ended, and then an estimate from all rollouts
of a problem together is biased: theirs is the variance at such counts, and they go for something else. Less is not more
success: it is what a method that goes for the mean pass rate has to offer by allocation alone.

Second row: how far such steps take the mean pass rate to first order, squared, per token, by what study ``worth``
measured; uniform's is 1. Rollouts weigh alike, but for ``invest``, whose credit has problems weigh alike. ``choose``
decides which problems come up and allots nothing among them, so it is in this row alone, and beside it the same rule by
what is so instead of by predictions.

Command: ``python benchmarks/studies/regret.py``, seven minutes of a core. Seeds 0 to 2, of problems and draws. See
``README.md``.
"""

from __future__ import annotations

import numpy as np
from _regret import KNOWS, PLANNERS, Simulated, simulated
from _study import BLUE, GREEN, GREY, ORANGE, PINK, RED, SKY, arguments, keep, panels
from matplotlib.axes import Axes

SEEDS = (0, 1, 2)
POOLS = {"every problem once": None, "a pool of 1,024": 1024, "a pool of 256": 256}
COLOURS = dict(zip(PLANNERS, (GREY, RED, ORANGE, SKY, PINK, GREEN, BLUE, "black"), strict=True))


def main() -> None:
    asked = arguments(__doc__).parse_args()
    figure, axes = panels([*POOLS, *POOLS], (12, 7), rows=2)
    numbers: dict[str, dict[str, dict[str, object]]] = {}
    for i, (name, pool) in enumerate(POOLS.items()):
        found = {planner: [simulated(planner, pool, seed) for seed in SEEDS] for planner in (*PLANNERS, KNOWS)}
        numbers[name] = {planner: said(each, found["uniform"]) for planner, each in found.items()}
        draw(numbers[name], axes[i], axes[len(POOLS) + i])
    axes[0].plot([], [], "k|", markersize=12, label="who knows the pass rates")
    axes[0].legend(frameon=False, fontsize=8, loc="lower right")
    keep("regret", numbers, figure, asked.out, seeds=list(SEEDS))


def said(found: list[Simulated], uniform: list[Simulated]) -> dict[str, object]:
    gains = [one.gain / other.gain for one, other in zip(found, uniform, strict=True)]
    return {
        "variance": np.mean([one.variance for one in found]), "by_seed": [one.variance for one in found],
        "who_knows": np.mean([one.known for one in found]),
        "gain": np.mean(gains), "gain_by_seed": gains,
    }  # fmt: skip


def draw(numbers: dict[str, dict[str, object]], above: Axes, below: Axes) -> None:
    allotting = [planner for planner in PLANNERS if planner != "choose"]
    above.barh(allotting, [numbers[p]["variance"] for p in allotting], color=[COLOURS[p] for p in allotting])
    above.plot([numbers[p]["who_knows"] for p in allotting], range(len(allotting)), "k|", markersize=16)
    above.set_xlabel("variance, uniform's at these tokens: 1")
    below.barh([*PLANNERS], [numbers[p]["gain"] for p in PLANNERS], color=COLOURS.values())
    below.plot([numbers[KNOWS]["gain"]], [len(PLANNERS) - 1], "k|", markersize=16)
    below.set_xlabel("gain per token, squared; uniform's: 1")
    for axis in (above, below):
        axis.axvline(1, color=GREY, linewidth=0.8, linestyle=":")
        axis.invert_yaxis()


if __name__ == "__main__":
    main()
