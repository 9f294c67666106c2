"""Empirical coverage of the confidence intervals that Outrider shows, by simulation.

The functions in ``COVERED`` compute every interval on a page or on the screen. Each is called here as the pages call
it, on data with a known true value: many problems and few, spread pass rates and pass rates nearly all at 0 or 1,
problems with groups in several steps, autocorrelated noise. Nominal coverage is 0.95 (0.997 for the findings, which
use three standard errors).

Shows (2026-11-22): see ``docs/intervals.md``, which ``--page`` writes.
Command: ``python benchmarks/studies/coverage_of_intervals.py --page docs/intervals.md``, three minutes of one core;
``--trials 0.1`` for a look. Seed 0.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from _coverage import Case, Row, held
from _intervals_of_curves import CURVES
from _intervals_of_problems import PROBLEMS
from _intervals_of_recipes import RECIPES
from _study import BLUE, GREY, RED, arguments, keep, panels

COVERED = {
    "bootstrap_mean": ("evaluation", "answers and texts", "groups of training"),
    "bootstrap_difference": ("change",),
    "means_by_group": ("tokens",),
    "Profile.over_problems": ("tokens",),
    "largest_by_group": ("tokens among the largest changes",),
    "rank_correlation": ("rank correlation",),
    "pass_rate_bound": ("bound on a pass rate",),
    "cumulative_advantage": ("weight of a group",),
    "share": ("share of a finding",),
    "change": ("trend of a finding",),
    "level": ("trend of a finding",),
    "entropy_collapse._from_the_first": ("entropy left",),
    "find_bend": ("saturation",),
    "fit_exchange": ("exchange of entropy",),
    "estimate": ("bench",),
    "difference": ("bench",),
    "at_equal_pass1": ("bench at equal pass@1",),
}
"""Functions that compute intervals, and the tables of the page that each is in."""

CASES: tuple[Case, ...] = (*PROBLEMS, *CURVES, *RECIPES)
POOR = {0.95: 0.9, 0.9973: 0.98}  # by nominal coverage: empirical coverage below this is bold


def simulated(cases: Iterable[Case], trials: float, seed: int) -> list[Row]:
    """The rows of all cases; each case draws from a generator of its own."""
    rows = []
    for number, case in enumerate(cases):
        begun = time.perf_counter()
        rows += held(case, max(20, round(case.trials * trials)), np.random.default_rng([seed, number]))
        print(f"{time.perf_counter() - begun:6.1f} s  {case.interval}: {case.population}", flush=True)
    return rows


def page(numbers: Mapping[str, Any]) -> str:
    """The results as a page."""
    about, rows = numbers["about"], [Row(**row) for row in numbers["rows"]]
    worst = {row.interval: min(r.held for r in rows if r.interval == row.interval) for row in rows}
    lines = [
        "# Coverage of confidence intervals",
        "",
        "This page gives the empirical coverage of every confidence interval that Outrider shows, from simulations "
        "with a known true value. Check here whether an interval in your report has its nominal coverage.",
        "",
        READING.strip(),
        "",
        "**How to read the tables.** *coverage* is the share of intervals that contain the true value. Nominal "
        "coverage is 0.95. In the tables *Share of a finding*, *Trend of a finding* and *Entropy left*, intervals "
        "extend three standard errors to each side, so nominal coverage is 0.997. *below* is the share of intervals "
        "that lie entirely below the true value; *above* is the share that lie entirely above it. *off by* is the "
        "median distance between the true value and the nearest end of the intervals that miss it. *none* is the "
        "share of simulated data sets for which no interval can be computed. **Bold** marks coverage below 0.90; where "
        "nominal coverage is 0.997, it marks coverage below 0.98. Pass rates are drawn from Beta(0.6, 0.9) unless a "
        "row says otherwise. In rows such as *normal effects: 0.006, 0.1, 0.15*, the numbers are the standard "
        "deviations of seed effects, problem effects and residuals.",
        "",
        f"**Method.** [`{Path(__file__).name}`](../benchmarks/studies/{Path(__file__).name}) generated this "
        f"page (`{about['command']}`; Outrider {about['versions']['outrider']}, NumPy {about['versions']['numpy']}, "
        f"seed {about['seeds']}, {about['date']}). Each row is based on {min(r.trials for r in rows):,} to "
        f"{max(r.trials for r in rows):,} simulated intervals, computed by the same functions as in Outrider's "
        "reports. A coverage of 0.95 therefore has a standard error of at most 0.014.",
        "",
    ]
    for interval in worst:
        shown = next(row.shown for row in rows if row.interval == interval)
        lines += [
            f"## {interval[0].upper()}{interval[1:]}",
            "",
            f"{shown}",
            "",
            "| data | quantity | coverage | below | above | off by | none | mean width |",
            "|---|---|---:|---:|---:|---:|---:|---:|",
        ]
        lines += [_line(row) for row in rows if row.interval == interval]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _line(row: Row) -> str:
    held_ = f"{row.held:.3f}"
    held_ = f"**{held_}**" if row.held < POOR[row.nominal] else held_
    below, above, none = (f"{x:.3f}" if x else "" for x in (row.below, row.above, row.none))
    off_by = f"{row.off_by:.2g}" if row.below or row.above else ""
    cells = [row.population, row.quantity, held_, below, above, off_by, none, f"{row.width:.3g}"]
    return "| " + " | ".join(cells) + " |"


READING = """
**Intervals with good coverage:**

- With 200 problems of widely different difficulty, coverage is 0.93 to 0.96 for evaluations, and for the difference
  between two evaluations.
- With 30 problems, coverage is 0.89 to 0.94. For the difference in pass@k between two evaluations, coverage is only
  0.82 if k is the number of samples per problem.
- If a problem has groups of rollouts in several steps, coverage is 0.93 to 0.95, because the bootstrap resamples whole
  problems. An earlier version resampled groups; its intervals had a coverage of about 0.5.
- With three or more seeds, the intervals of `outrider bench` have a coverage of 0.91 to 0.99.
- Some intervals decide whether a report contains a *finding* (a problem detected in the run). These intervals have
  about nominal coverage if each step samples new problems.

**Intervals with poor coverage:**

- *Few problems.* With 8 problems and k equal to the number of samples, coverage of pass@k is 0.74. Coverage of the
  difference in pass@k between two evaluations is then 0.41.
- *Extreme pass rates.* The intervals are too short if almost all problems have pass rate 0, or almost all have pass
  rate 1. For example, only 5 % of the problems can be solved, or 95 % are always solved. With 5 % solvable problems,
  intervals that miss the true pass rate are mostly too low; with 95 % always solved, they are mostly too high. An
  interval has width 0 if the evaluation contains no solvable problem, or if all of its problems are always solved. If
  5 % are solvable, coverage is about 0.9 with 100 problems, and 0.5 to 0.77 with 30 problems. For the difference
  between two evaluations, coverage is lower. If 95 % are always solved, pass@16 is 1 in almost every simulated data
  set. The interval then almost always misses the true value, by 0.0001 (column *off by*). Report the number of solved
  problems instead.
- *Autocorrelated noise.* Some intervals describe how a metric changes over the steps of a run (the four tables before
  the table *Bench*). These intervals assume that noise is independent, or correlated over only a few steps. At an
  autocorrelation of 0.9, coverage is 0.18 to 0.79. Noise is independent if every step samples new problems. Noise is
  autocorrelated if a metric is a moving average, or if every step measures the same problems.
- *One seed.* An interval from one seed does not include the variation between seeds. If the log-odds of success vary
  between seeds with a standard deviation of 0.1, coverage of the difference between two runs is 0.53. With two seeds,
  coverage is 0.88 if nearly all of the variance comes from the seeds (last row of the table *Bench*).
- *Equal pass@1.* `outrider bench` compares pass@k of two recipes at the highest pass@1 that both recipes reach. If two
  evaluations of one recipe have nearly equal pass@1 but different pass@k, chance decides which pass@k is compared. The
  interval ignores this uncertainty, so its coverage is about 0.6.
- *Bounds on the pass rate of unsolved problems* are valid for one problem that was chosen beforehand. If every problem
  has a pass rate of 0.2, a few problems have no success in 16 samples by chance. For these problems, the bound is
  always too low.
"""


def draw(rows: list[Row]) -> Any:
    """A dot for each row, by interval, with a line at a nominal coverage of 0.95."""
    figure, [axes] = panels(["empirical coverage of intervals"], (11, 7))
    names = list(dict.fromkeys(row.interval for row in rows))
    for row in rows:
        poor = row.held < POOR[row.nominal]
        colour = RED if poor else GREY if row.nominal > 0.96 else BLUE
        axes.plot(row.held, names.index(row.interval), "o", color=colour, alpha=0.6, markersize=5)
    axes.axvline(0.95, color=GREY, linewidth=1)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(min(0.4, min(row.held for row in rows) - 0.02), 1.005)
    axes.set_xlabel("each dot is one population and quantity; grey: nominal 0.997; orange: below 0.90, or 0.98")
    return figure


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--trials", type=float, default=1.0, metavar="X", help="so many times the usual trials")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page there")
    asked = parser.parse_args()
    begun = time.process_time()
    rows = simulated(CASES, asked.trials, asked.seed)
    numbers = {"covered": COVERED, "rows": [row._asdict() for row in rows]}
    numbers["minutes"] = round((time.process_time() - begun) / 60, 1)
    keep("coverage_of_intervals", numbers, draw(rows), asked.out, seeds=asked.seed)
    if asked.page is not None:
        asked.page.write_text(page(json.loads((asked.out / "coverage_of_intervals.json").read_text())))


if __name__ == "__main__":
    main()
