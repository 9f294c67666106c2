"""Which method when: the benches of the map, and the rule by which they were made.

Each of the settings ``countdown``, ``frontier``, ``sparse`` and ``prose`` has these steps:

1. *Screen.* Every recipe runs with learning rates 1e-4 and 2e-4 and with one and four updates a step, 1,200,000
   generated tokens a run, mostly one run for each pair. A recipe's hyperparameters are the first pair within one
   standard error of its best pair, by the mean of pass@1 and the largest pass@k. GRPO is tuned in the same way.
2. *Choose.* ``frontier`` and ``sparse`` compare GRPO, the recipes whose papers' claims are checked (DARS, XRPO,
   DEEP-GRPO), the two best of our designs and the two best other recipes, by the mean over all their screening runs.
   ``countdown`` and ``prose`` compare all nine recipes that they screen.
3. *Compare.* Five seeds of 3,600,000 tokens (``prose``: 2,400,000), each recipe with its own hyperparameters. Four
   evaluations during training use one set of problems. The last policies are measured once on the final test set.
4. *Confirm.* A promising recipe runs beside GRPO at the same hyperparameters (learning rate 1e-4, four updates a
   step), with new seeds, and is measured on problems that this bench keeps for its end.
5. *Recommend.* A setting recommends the recipe of its last confirmation if the recipe is significantly higher there in
   pass@1 or in the largest pass@k and significantly lower in neither, by 95 % confidence intervals. Otherwise the
   setting recommends none.

Held-out problems were used in this order:

- In the order of their draws (versions up to 0.2): 0 to 299 for evaluations during training, 300 to 449 for the screen
  (``prose``: 300 to 599), 600 to 899 as final test set of the comparison, 2400 to 2699 on ``frontier`` as that of the
  confirmation of ``choose-slope3``. The benches in results/map-0.2 used others.
- Shuffled (since 2026-11-27): 0 to 299 for evaluations during training. Final test sets of confirmations are 600 to 851
  on ``countdown``, 600 to 899 on ``frontier`` and ``sparse``, and 500 to 799 on ``prose``; that of the comparison of
  ``countdown`` is 300 to 599.

Known limitations:

- The comparison of ``countdown`` is not measured on shuffled problems: 3 of its 45 runs are (``compared``, packed).
  The earlier one used the order of the draws, in which common and easy problems come first, so that its curve and its
  final test set are two populations (the base has pass@1 0.220 and 0.150). It left the map for results/map-0.2.
- Problems of the two orders overlap. Of the first 852 shuffled problems of ``countdown`` other benches had measured on
  200 of the 213 with three numbers, of which hardly any others exist, and on 53 of the 639 with four to six.
- Intervals are those of single comparisons, not corrected for their number. Most recipes to confirm were chosen on the
  final test set of the comparison, so the comparison favours them, and the confirmation does not.
- Most screens have one run for each pair, so the hyperparameters are uncertain. The screen of ``prose`` has learning
  rate 1e-4 alone, two seeds and 300 problems. ``choose`` was designed on the problems of the screen of ``frontier``.
- The comparisons and the confirmation of ``choose-slope3`` were recovered from git history. Runs whose evaluations were
  not kept are excluded, so most recipes have four seeds, and ``dars-hw-breadth`` is missing on ``frontier``.

Earlier versions of the rule, with all their steps and dates, are in git history (``git show 2d7a062:benchmarks/map.py``
and 0a33e29) and in docs/log.md. Their benches that kept no tallies are in results/map-0.2.

Commands: ``python benchmarks/map.py SETTING [--runs DIR]`` runs the benches of a setting that are not committed yet.
``python benchmarks/map.py pack`` packs the finished runs of benches that are not done, for another machine to continue.
``python benchmarks/map.py draw`` writes pages and pictures from the committed results. ``python benchmarks/map.py
check`` computes the committed numbers again from per-problem tallies.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from _finished import pack
from _map_best import best_figure
from _map_figure import figure
from _map_page import page
from _map_plan import SETTINGS, comparison, confirmations
from _map_read import comparisons, done
from _map_rule import recommended
from _map_run import FINISHED, measured, screened
from _map_setting import setting_page
from _map_tallies import check

from outrider.runs.environment import environment

RESULTS = Path(__file__).parent / "results" / "map"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=(*SETTINGS, "pack", "draw", "check"))
    parser.add_argument("--runs", type=Path, default=Path("runs/map"), metavar="DIR", help="folder of the runs")
    asked = parser.parse_args()
    if asked.what == "check":
        sys.exit(check(RESULTS))
    if asked.what == "pack":
        packed(asked.runs)
        return
    if asked.what in SETTINGS:
        refuse_dirty()
        run_setting(asked.what, asked.runs / asked.what)
    draw(RESULTS)


def refuse_dirty() -> None:
    """Exit where the tree is no commit: a committed number names the commit that makes it again."""
    commit = environment()["git"]
    if commit is None or commit.endswith("-dirty"):
        sys.exit(f"this tree is no commit ({commit}): commit first, so that the numbers can be made again")


def run_setting(setting: str, runs: Path) -> None:
    """Run the benches of a setting that have no committed results, in the order of the rule."""
    kept = RESULTS / setting
    tuned = screened(setting, kept / "screen", runs / "screen")
    for bench in (comparison(setting, tuned), *confirmations(setting)):
        measured(setting, bench, tuned, kept / bench.folder, runs)


def packed(runs: Path) -> None:
    """Pack the finished runs of every bench that has no committed results."""
    places = {file.parent: RESULTS / file.parent.relative_to(runs) for file in sorted(runs.glob("*/*/bench.yaml"))}
    unfinished = {found: out for found, out in places.items() if not (out / "results.json").exists()}
    if not unfinished:
        sys.exit(f"{runs} holds no bench that is not done (--runs)")
    for found, out in unfinished.items():
        print(f"{out / FINISHED}: {pack(found, out / FINISHED)} runs")


def draw(out: Path) -> None:
    """Write the page and the pictures of all settings with a finished bench, and a page of each."""
    if not (settings := done(out)):
        sys.exit(f"{out} holds no finished bench yet: python benchmarks/map.py {SETTINGS[0]}")
    (out / "page.md").write_text(page(settings), "utf-8")
    for name, setting in settings.items():
        (out / name / "page.md").write_text(setting_page(name, setting), "utf-8")
    if compared := comparisons(settings):
        figure(compared).savefig(out / "map.png")
    confirmed = {name: setting for name, setting in settings.items() if recommended(setting)}
    if confirmed:
        best_figure(confirmed).savefig(out / "best.png")
    else:
        (out / "best.png").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
