"""How often the intervals that Outrider shows hold the truth, simulated for each of them.

Every interval on a page or on the screen is made by one of the functions in ``COVERED``; each is called here as the
pages call it, on data drawn from populations of which the truth is known: many problems and few, pass rates all over
and nearly all at 0 or 1, problems that come up in several steps, noise that is alike from step to step. The share of
intervals that hold the truth should be 0.95 (0.997 for the findings, which take three standard errors).

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
"""What makes intervals, and the rows of the table that are about it."""

CASES: tuple[Case, ...] = (*PROBLEMS, *CURVES, *RECIPES)
POOR = {0.95: 0.9, 0.9973: 0.98}  # by what an interval promises: below this it is marked


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
        "# How often intervals hold the truth",
        "",
        f"Written by [`{Path(__file__).name}`](../benchmarks/studies/{Path(__file__).name}): `{about['command']}`, "
        f"Outrider {about['versions']['outrider']}, NumPy {about['versions']['numpy']}, seed {about['seeds']}, "
        f"{about['date']}. An interval is simulated as the pages make it, {min(r.trials for r in rows):,} to "
        f"{max(r.trials for r in rows):,} times for each row, so a share of 0.95 is known to ±0.02 or better.",
        "",
        "*held* is the share of intervals that hold the truth, where there is one: 0.95 is promised, and 0.997 by the "
        "findings, which take three standard errors. *below* and *above* are the shares that lie below the truth and "
        "above it, *off by* says how far from it those end, in the median; *none* is where no interval is shown. "
        "**Bold**: less than 0.90, or 0.98, holds it.",
        "",
        READING.strip(),
        "",
    ]
    for interval in worst:
        shown = next(row.shown for row in rows if row.interval == interval)
        lines += [
            f"## {interval[0].upper()}{interval[1:]}",
            "",
            f"{shown}",
            "",
            "| drawn from | of | held | below | above | off by | none | mean width |",
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
**Where to trust them.** Over 200 problems whose pass rates are spread, intervals of evaluations and of their changes
hold the truth in 93 to 96 of 100 cases, and over 30 in 89 to 94 (the change of pass@k at the k of all samples: in 82).
Groups that come up in several steps are no worse, since their problems are resampled: resampling the groups, as was
done before, held it in half of the cases. The bench's layout keeps its promise from three seeds on, and findings keep
theirs where steps sample anew.

**Where not.**

- *Few problems.* With 8, pass@k at the k of all samples is held in three of four cases, its change in fewer than half.
- *Nearly all problems alike*, as where 5 % of them can be solved, or cannot: intervals are too short, all on the side
  where most problems are, and may have no width at all, because no other problem was drawn. 100 problems of which 5 %
  can be solved are held in nine of ten cases, 30 of them in half to three quarters, changes in fewer. Where 95 % are
  always solved, pass@16 is 1 for all that is drawn, and so its interval: missed nearly always, by one in ten thousand
  (*off by*). Read such a number as a count of problems.
- *Steps whose noise is alike.* Trends, saturation and the exchange of entropy take the noise of neighbouring steps for
  independent, or for alike over a few steps. Where it lasts (0.9), they hold the truth in a fifth to two thirds of the
  cases. Steps that sample anew have independent noise; a moving average, or a metric of the same problems, has not.
- *One seed.* Without the bench's seeds no interval covers the luck of a run: that of a difference between two runs held
  the truth in half of the cases, where seeds differ by a tenth in the logits. With two seeds that are nearly all of the
  noise (the last normal case) it is 0.88.
- *At equal pass@1* which point of a recipe is its highest is taken as given: where two are nearly as high and differ in
  pass@k, the interval is held in about six of ten cases.
- *Bounds on the pass rate of unsolved problems* are for one problem that was chosen beforehand. Among problems that are
  all solved by one try in five, those without a success in 16 are the unlucky ones, and the bound holds for none.
"""


def draw(rows: list[Row]) -> Any:
    """A dot for each row, by interval; what each promises is a line."""
    figure, [axes] = panels(["share of intervals that hold the truth"], (11, 7))
    names = list(dict.fromkeys(row.interval for row in rows))
    for row in rows:
        poor = row.held < POOR[row.nominal]
        colour = RED if poor else GREY if row.nominal > 0.96 else BLUE
        axes.plot(row.held, names.index(row.interval), "o", color=colour, alpha=0.6, markersize=5)
    axes.axvline(0.95, color=GREY, linewidth=1)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(min(0.4, min(row.held for row in rows) - 0.02), 1.005)
    axes.set_xlabel("a dot is a population and a quantity; grey: promises 0.997; orange: less than 0.90, or 0.98")
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
