"""Cumulative-advantage curves of DARS: how much weight a problem gets, by how often the policy solves it.

Claim (arXiv 2508.13755, Eq. 2, Figures 2 and 16, appendix F.1): the advantages of a group sum, in absolute value, to
2 N a (1 - a), so problems of middle difficulty weigh most. DARS-ET lifts every accuracy a < 1/2 to the sum at 1/2,
DARS-HW makes the sum grow as a falls; smaller N_max contract the curve, and N_max = N is the plain method.

The paper draws the sum against the accuracy that a group shows. Ours is its exact expectation against the pass rate p
that the problem has: successes of the first pass are Binomial(N, p), those of the second Binomial(extra, p), and the
group is their union, with the baselines of ``outrider.credit`` and the counts of ``outrider.explore.rebalance``. The
paper's points are drawn as dots. Panels: without std (and GRPO, RLOO for comparison); the released code's std form,
in counts and advantages, and its no-std form with its N_max; N_max of both schedules.

Shows (2026-11-21): against the true pass rate no schedule is flat or falling; all peak near 0.2 and go to 0 at 0.
Command: ``python benchmarks/studies/cumulative_advantage.py``. No seeds; see ``README.md``.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
from _study import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, RED, SKY, arguments, keep, panels
from matplotlib.axes import Axes
from scipy.stats import binom

from outrider.credit import GroupMean, Members
from outrider.credit.chain import Baseline
from outrider.credit.leave_one_out import LeaveOneOut
from outrider.explore.rebalance import rollouts_wanted

N = 8
RATES = np.linspace(0, 1, 201)


class Method(NamedTuple):
    """A baseline and, for DARS, the schedule of the second pass."""

    baseline: Literal["std", "no std", "leave one out"]
    schedule: Literal["et", "hw"] | None = None
    n_max: int = 32


BASELINES: dict[str, Baseline] = {
    "std": GroupMean(std=True),
    "no std": GroupMean(std=False),
    "leave one out": LeaveOneOut(),
}


@cache
def sum_of(baseline: str, n: int, successes: int) -> float:
    """The sum of |A| over a group of ``n`` of which ``successes`` succeeded."""
    success = np.arange(n) < successes
    group = Members(success.astype(np.float64), success, np.ones(n, np.int64))
    return float(np.abs(BASELINES[baseline].advantages(group)).sum())


def size_after(method: Method, successes: int) -> int:
    """Rollouts in all for a problem with so many successes in its first ``N``."""
    if method.schedule is None:
        return N
    return min(rollouts_wanted(N, successes, method.schedule, std=method.baseline == "std"), method.n_max)


def expected(method: Method, rate: float) -> float:
    """Expected sum of |A| over the union of both passes for a problem of this pass rate."""
    total = 0.0
    for first, chance in enumerate(binom.pmf(np.arange(N + 1), N, rate)):
        size = size_after(method, first)
        second = binom.pmf(np.arange(size - N + 1), size - N, rate)
        total += chance * sum(p * sum_of(method.baseline, size, first + k) for k, p in enumerate(second))
    return total


def printed(method: Method, accuracy: float) -> float:
    """The paper's sum: its size after the second pass, at the accuracy of the first, times S."""
    size = size_after(method, round(accuracy * N))
    spread = accuracy * (1 - accuracy)
    return 2 * size * (spread**0.5 if method.baseline == "std" else spread)


def draw(axes: Axes, lines: dict[str, tuple[Method, str, str]], dots: bool = True) -> dict[str, Any]:
    told = {}
    for label, (method, colour, style) in lines.items():
        curve = np.array([expected(method, rate) for rate in RATES])
        axes.plot(RATES, curve, style, color=colour, linewidth=1.8, label=label)
        if dots and method.schedule is not None:
            accuracies = np.arange(1, N) / N
            axes.plot(accuracies, [printed(method, a) for a in accuracies], "o", color=colour, markersize=4)
        half = expected(method, 0.5)
        told[label] = {
            "at_1/2": half,
            "relative_to_1/2": {f"{rate:g}": expected(method, rate) / half for rate in (0.02, 0.05, 0.1, 0.25, 0.75)},
            "peak_at": float(RATES[curve.argmax()]),
            "peak": float(curve.max()),
        }
    axes.set_xlabel("pass rate p of the problem (dots: accuracy)")
    axes.set_xlim(0, 1)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8)
    return told


def main() -> None:
    out = arguments(__doc__).parse_args().out
    titles = ["expected sum of |A|, first pass N = 8", "the released forms", "without std, by N_max"]
    figure, (plain, released, cap) = panels(titles, (14, 4.4))
    numbers = {
        "plain": draw(
            plain,
            {
                "GRPO (std)": (Method("std"), GREY, "-"),
                "Dr. GRPO": (Method("no std"), BLACK, "-"),
                "RLOO": (Method("leave one out"), SKY, "--"),
                "DARS-ET, 32": (Method("no std", "et"), BLUE, "-"),
                "DARS-HW, 32": (Method("no std", "hw"), RED, "-"),
            },
        ),
        "released": draw(
            released,
            {
                "GRPO (std)": (Method("std"), GREY, "-"),
                "DARS-ET, 32, std": (Method("std", "et"), BLUE, "-"),
                "DARS-HW, 32, std": (Method("std", "hw"), RED, "-"),
                "DARS-ET, 32, no std": (Method("no std", "et"), SKY, "--"),
                "DARS-HW, 64, no std": (Method("no std", "hw", 64), PINK, "--"),
            },
        ),
        "n_max": draw(
            cap,
            {"N_max 8: Dr. GRPO": (Method("no std"), BLACK, "-")}
            | {f"HW, N_max {m}": (Method("no std", "hw", m), c, "-") for m, c in ((16, ORANGE), (32, RED), (64, PINK))}
            | {f"ET, N_max {m}": (Method("no std", "et", m), c, "--") for m, c in ((16, GREEN), (32, BLUE), (64, SKY))},
            dots=False,
        ),
    }
    keep("cumulative_advantage", numbers, figure, out)


if __name__ == "__main__":
    main()
