"""The latency model of XRPO's rounds, T2 / T1, as an exact calculation.

Claim (arXiv 2510.06672, appendix B): N rollouts of time t0, m of which run at once, take T1 = ceil(N / m) t0; in n
rounds they take T2 = n (ceil(N / n / m) t0 + dt). The paper writes ceil(x / m) as (x + m - 1) / m and finds
T2 / T1 = n - (n - 1) N / (N + m - 1), which is 1 for m much smaller than N and n for m much larger.

Ours has the ceilings as they are. (x + m - 1) / m is the largest value that ceil(x / m) can have, and the value only
where x leaves the remainder 1; the ratio of two such bounds is no bound.

Shows (2026-11-21): no loss where m divides N / n, and the full n from m = N on, where Eq. 9 says (n + 1) / 2.
Command: ``python benchmarks/studies/latency.py``. No seeds; see ``README.md``.
"""

from __future__ import annotations

import math

import numpy as np
from _study import BLUE, GREY, RED, arguments, keep, panels


def ratio(total: int, parallel: int, rounds: int) -> float:
    """T2 / T1 in waves of ``parallel`` rollouts, without planning time; ``rounds`` divide ``total``."""
    return rounds * math.ceil(total // rounds / parallel) / math.ceil(total / parallel)


def printed(total: int, parallel: int, rounds: int) -> float:
    """The paper's Eq. 9."""
    return rounds - (rounds - 1) * total / (total + parallel - 1)


def main() -> None:
    out = arguments(__doc__).parse_args().out
    total, parallel = 256, np.arange(1, 1025).tolist()
    figure, plots = panels([f"T2 / T1 of {total} rollouts in {n} rounds" for n in (2, 4)], (10, 4))
    numbers = {}
    for axes, n in zip(plots, (2, 4), strict=True):
        exact, eq_9 = ([f(total, m, n) for m in parallel] for f in (ratio, printed))
        axes.plot(parallel, exact, color=BLUE, linewidth=1.2, drawstyle="steps-mid", label="whole waves")
        axes.plot(parallel, eq_9, "--", color=RED, linewidth=1.5, label="Eq. 9")
        axes.axhline(1, color=GREY, linewidth=0.8, linestyle=":")
        axes.set(xscale="log", xlabel="rollouts at once, m", ylim=(0.9, n + 0.1))
        axes.set_xticks([1, 4, 16, 64, 256, 1024], ["1", "4", "16", "64", "256", "1024"])
        axes.minorticks_off()
        axes.legend(frameon=False, loc="upper left")
        numbers[f"n={n}"] = {
            "at_m": {
                m: {"whole_waves": ratio(total, m, n), "eq_9": printed(total, m, n)} for m in (8, 32, 100, 128, 256)
            },
            "share_of_m_up_to_64_without_loss": np.mean([ratio(total, m, n) == 1 for m in range(1, 65)]),
            "eq_9_below_at": sum(p < e for p, e in zip(eq_9, exact, strict=True)),
            "eq_9_above_at": sum(p > e for p, e in zip(eq_9, exact, strict=True)),
        }
    keep("latency", numbers, figure, out)


if __name__ == "__main__":
    main()
