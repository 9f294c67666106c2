"""What DARS costs: average rollouts per problem, against as many for everyone as the hardest problem gets.

Claim (arXiv 2508.13755, Table 2): with N_max = 32, naive depth draws 32 rollouts per prompt, DARS-ET 15.2 and 12.8,
DARS-HW 23.9 and 20.1 (Qwen2.5-Math 1.5B and 7B, mean over training): 25 to 60 % fewer.

Ours is for the shipped base before training: 64 samples of each of 300 held-out problems, then exact. The first pass
of a problem with s successes in 64 is Hypergeometric(64, s, 8), an unbiased estimate of its distribution; the second
is what ``outrider.explore.rebalance`` asks for. Tokens are rollouts times the problem's mean length in the samples.

Shows (2026-11-21): 20.2 (ET) and 24.0 (HW) instead of 32; in tokens 31 and 19 % fewer, as hard problems are longer.
Command: ``python benchmarks/studies/rollouts_per_problem.py``, which runs ``outrider evaluate`` (50 s of one core)
unless ``--evaluated DIR`` has one. Seed 0; see ``README.md``.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from _study import BLACK, BLUE, GREY, RED, arguments, keep, outrider_command, panels
from scipy.stats import hypergeom

from outrider.explore.rebalance import rollouts_wanted
from outrider.measure.evaluation import Evaluation
from outrider.measure.tally import Tally
from outrider.runs.folder import RunFolder

N = 8
PAPER = {"naive": (32.0, 32.0), "ET": (15.2, 12.8), "HW": (23.9, 20.1)}  # 1.5B, 7B
SCHEDULES: dict[str, Literal["et", "hw"] | None] = {"naive": None, "ET": "et", "HW": "hw"}
COLOURS = {"naive": GREY, "ET": BLUE, "HW": RED}


def evaluated(folder: Path) -> Evaluation:
    """The evaluation in a folder; made there first if the folder does not exist."""
    if not folder.exists():
        asked = ["base:countdown", "--task", "countdown", "--n", 64, "--problems", 300, "evaluate.greedy=false"]
        outrider_command("evaluate", *asked, "--out", folder)
    return Evaluation.from_json(RunFolder(folder).evaluations()[0])


def mean_rollouts(samples: int, successes: int, schedule: Literal["et", "hw"] | None, n_max: int) -> float:
    """Expected rollouts, both passes, of a problem with so many successes among its samples; naive: ``n_max``."""
    if schedule is None:
        return float(n_max)
    chances = hypergeom.pmf(np.arange(N + 1), samples, successes, N)
    sizes = [min(rollouts_wanted(N, first, schedule), n_max) for first in range(N + 1)]
    return float(chances @ sizes)


def of_all(tallies: Sequence[Tally], schedule: Literal["et", "hw"] | None, n_max: int) -> dict[str, Any]:
    """Mean over problems: rollouts, tokens, and what is saved of both against naive depth."""
    each = np.array([mean_rollouts(t.scorable, t.successes, schedule, n_max) for t in tallies])
    lengths = np.array([t.tokens / t.samples for t in tallies])
    return {
        "rollouts": float(each.mean()),
        "tokens": float((each * lengths).mean()),
        "saved_rollouts": 1 - float(each.mean()) / n_max,
        "saved_tokens": 1 - float((each * lengths).sum() / (n_max * lengths.sum())),
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--evaluated", type=Path, metavar="DIR", help="folder of an `outrider evaluate --out DIR`")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        tallies = evaluated(asked.evaluated or Path(scratch) / "evaluated").tallies
    caps = (16, 32, 64)
    table = {m: {name: of_all(tallies, schedule, m) for name, schedule in SCHEDULES.items()} for m in caps}
    levels = {t.level for t in tallies}
    by_level = {
        level: {n: of_all([t for t in tallies if t.level == level], s, 32) for n, s in SCHEDULES.items()}
        for level in sorted(levels)
    }

    titles = ["pass rates of the base", "rollouts of a problem, N_max = 32", "mean over problems"]
    figure, (rates, curves, bars) = panels(titles, (13, 4))
    rates.hist([t.successes / t.scorable for t in tallies], np.linspace(0, 1, 21), color=GREY)
    rates.set(xlabel="successes of 64 samples", ylabel="problems", xlim=(0, 1))
    successes = np.arange(65)
    for name, schedule in SCHEDULES.items():
        line = [mean_rollouts(64, s, schedule, 32) for s in successes]
        curves.plot(successes / 64, line, color=COLOURS[name], linewidth=1.8, label=name)
    curves.axhline(N, color=BLACK, linestyle=":", linewidth=1, label="GRPO, 8")
    curves.set(xlabel="pass rate", ylabel="expected rollouts", xlim=(0, 1), ylim=(0, 34))
    curves.legend(frameon=False)
    for i, name in enumerate(SCHEDULES):
        heights = [table[m][name]["rollouts"] for m in caps]
        drawn = bars.bar(np.arange(3) + 0.27 * (i - 1), heights, 0.25, color=COLOURS[name], label=name)
        bars.bar_label(drawn, fmt="{:.1f}", fontsize=8)
        bars.plot([0.87 + 0.27 * i - 0.27, 1.13 + 0.27 * i - 0.27], [PAPER[name]] * 2, color=BLACK, linewidth=1.2)
    bars.set_xticks(range(3), [f"N_max {m}" for m in caps])
    bars.plot([], [], color=BLACK, linewidth=1.2, label="paper, 1.5B and 7B")
    bars.legend(frameon=False)
    solved = Counter(t.successes for t in tallies)
    numbers = {
        "by_n_max": table,
        "by_size_at_32": by_level,
        "paper_at_32": PAPER,
        "problems_by_successes_of_64": dict(sorted(solved.items())),
    }
    keep("rollouts_per_problem", numbers, figure, asked.out, seeds=[0])


if __name__ == "__main__":
    main()
