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
least. So ``invest`` is measured in a world that is as it believes: beta distributions, noises that do not depend on the
end of a response. Counts of DARS and XRPO depend on how rollouts ended, and then no estimate is unbiased by weights
alone: theirs is the variance at such counts, and they go for something else. Less is not more success: it is what a
method that goes for the mean pass rate has to offer by allocation alone.

Command: ``python benchmarks/studies/regret.py``, five minutes of a core. Seeds 0 to 2, of problems and draws. See
``README.md``.
"""

from __future__ import annotations

import numpy as np
from _regret import PLANNERS, simulated
from _study import BLUE, GREEN, GREY, ORANGE, PINK, RED, SKY, arguments, keep, panels

SEEDS = (0, 1, 2)
POOLS = {"every problem once": None, "a pool of 1,024": 1024, "a pool of 256": 256}
COLOURS = dict(zip(PLANNERS, (GREY, RED, ORANGE, SKY, PINK, GREEN, BLUE), strict=True))


def main() -> None:
    asked = arguments(__doc__).parse_args()
    figure, axes = panels(list(POOLS), (12, 3.6))
    numbers: dict[str, dict[str, dict[str, object]]] = {}
    for axis, (name, pool) in zip(axes, POOLS.items(), strict=True):
        found = {planner: [simulated(planner, pool, seed) for seed in SEEDS] for planner in PLANNERS}
        numbers[name] = {
            planner: {"variance": np.mean([v for v, _ in pairs]), "by_seed": [v for v, _ in pairs],
                      "who_knows": np.mean([known for _, known in pairs])}
            for planner, pairs in found.items()
        }  # fmt: skip
        axis.barh([*PLANNERS], [numbers[name][p]["variance"] for p in PLANNERS], color=COLOURS.values())
        axis.plot([numbers[name][p]["who_knows"] for p in PLANNERS], range(len(PLANNERS)), "k|", markersize=16)
        axis.axvline(1, color=GREY, linewidth=0.8, linestyle=":")
        axis.invert_yaxis()
        axis.set_xlabel("variance, uniform's at these tokens: 1")
    axes[0].plot([], [], "k|", markersize=12, label="who knows the pass rates")
    axes[0].legend(frameon=False, fontsize=8, loc="lower right")
    keep("regret", numbers, figure, asked.out, seeds=list(SEEDS))


if __name__ == "__main__":
    main()
