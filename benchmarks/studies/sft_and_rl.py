"""Does supervised training widen what a model can solve, and does RL narrow it?

Claims (arXiv 2508.07534, section 2.4, Figure 1; Qwen2.5-Math-7B, its R1 distillation, RL of that; 60 problems of AIME
with 640 samples): SFT raises pass@k, RL only pass@1; both lower answer diversity, RL more; the sets of problems that k
rollouts leave unsolved are nowhere contained in each other, RL's being larger than SFT's; SFT raises the rollout
branching factor, RL does not.

Ours: the shipped base; the base with half as much SFT again; GRPO from the base (the report's RL starts at its SFT);
300 held-out problems, 64 samples each. An answer is the sequence of calculations. Differences are paired by problem,
and intervals are over seeds and problems. The base is sampled twice: what two samples of one model do not share is
luck.

Shows (2026-11-21): RL pass@1 +0.12, pass@64 -0.13, 5.3 of 27 answers and 0.10 of the branching factor fewer, but 1.0
correct answers more; SFT pass@8 +0.025, pass@64 +0.003, branching factor -0.013; the problems that RL alone solves are
fewer than those that a second sample of the base solves.
Command: ``python benchmarks/studies/sft_and_rl.py [--runs DIR]`` (15 minutes of a core where DIR holds nothing, one
where it holds all). Seeds 0 to 2 of RL, one SFT; see ``README.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _models import BASE, SEEDS, analysed, arguments_with_runs, evaluated, longer_sft, trained
from _study import BLACK, BLUE, GREY, RED, SKY, keep, panels
from matplotlib.axes import Axes
from numpy.typing import NDArray

from outrider.bench.crossed import Estimate, difference, estimate
from outrider.bench.results import Measured
from outrider.measure.diversity import distinct_at_k, text_diversity
from outrider.measure.passk import pass_at_k, powers_of_two
from outrider.measure.unsolvable import Unsolved, fit_pass_rates, overlap, unsolved
from outrider.runs.folder import RunFolder

N, DRAWN = 64, 32  # samples of a problem; of these, how many answers are compared
COLOURS = {"base": BLACK, "SFT": BLUE, "RL": RED}


class Answers(NamedTuple):
    """The samples of one model, problem by problem in the order of their ids.

    ``answers``: what each scorable response calculates, empty where it cannot be read; ``right``: those that are
    correct. ``overlap``: BLEU of a response against all others of its problem, mean.
    """

    problems: list[str]
    n: NDArray[np.int64]
    c: NDArray[np.int64]
    answers: list[list[str]]
    right: list[list[str]]
    overlap: NDArray[np.float64]


def answers(run: Path) -> Answers:
    """From the last evaluation of a run."""
    columns = ["step", "problem_id", "answer", "outcome", "token_ids"]
    table = RunFolder(run).rollouts.table(columns, "evaluate")
    last = table.filter(table["step"].to_numpy() == table["step"].to_numpy().max())
    found: dict[str, tuple[list[str], list[str]]] = {}
    for problem, answer, outcome in zip(*(last[name].to_pylist() for name in columns[1:4]), strict=True):
        every, right = found.setdefault(problem, ([], []))
        every.append(answer or "")
        right += [answer] if outcome == "correct" else []
    problems = sorted(found)
    tokens = [ids.values.to_numpy() for ids in last["token_ids"]]
    return Answers(
        problems=problems,
        n=np.array([len(found[p][0]) for p in problems]),
        c=np.array([len(found[p][1]) for p in problems]),
        answers=[found[p][0] for p in problems],
        right=[found[p][1] for p in problems],
        overlap=text_diversity(tokens, last["problem_id"].to_numpy(zero_copy_only=False)).overlap_P,
    )


def distinct_right(found: Answers, k: int) -> NDArray[np.float64]:
    """Expected number of distinct correct answers among ``k`` samples of each problem, wrong ones included."""
    counts = [list(Counter(right).values()) for right in found.right]
    return np.array([pass_at_k(n, c, k).sum() if c else 0.0 for n, c in zip(found.n.tolist(), counts, strict=True)])


def of_problems(found: Answers) -> dict[str, NDArray[np.float64]]:
    """Every number of a problem whose mean is reported; NaN where a problem has none."""
    passed = {f"pass@{k}": pass_at_k(found.n, found.c, k) for k in powers_of_two(N)}
    return passed | {
        f"distinct answers in {DRAWN}": np.array([distinct_at_k(answers, DRAWN) for answers in found.answers]),
        f"distinct correct answers in {DRAWN}": distinct_right(found, DRAWN),
        "self-BLEU": found.overlap,
    }


def of_tokens(table: Any, problems: Sequence[str]) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Sums over the tokens of each problem and their number: branching factor, share of forks, entropy."""
    names, row = np.unique(table["group_id"].to_numpy(zero_copy_only=False), return_inverse=True)
    if [name.removeprefix("evaluate:") for name in names.tolist()] != list(problems):
        raise ValueError("the analysis is not of the same problems")
    candidates, entropy = table["branching_95"].to_numpy(), table["entropy"].to_numpy()
    values = {"branching factor": candidates, "tokens with a choice": candidates > 1, "entropy": entropy}
    counts = np.bincount(row, minlength=len(names)).astype(np.float64)
    return {name: (np.bincount(row, column, len(names)), counts) for name, column in values.items()}


def measured(rows: Sequence[NDArray[np.float64]]) -> Measured:
    """A mean over problems, one row per seed."""
    values = np.array(rows)
    return Measured(np.nan_to_num(values), (~np.isnan(values)).astype(np.float64))


def quantities(runs: Mapping[str, Path], folder: Path) -> tuple[dict[str, Measured], list[Answers]]:
    """All quantities of a model's seeds."""
    found = [answers(run) for run in runs.values()]
    every = [of_problems(each) for each in found]
    tokens = [
        of_tokens(analysed(folder, "tokens", name, run, "--split", "evaluate", "--limit", 2400), each.problems)
        for (name, run), each in zip(runs.items(), found, strict=True)
    ]
    means = {name: measured([values[name] for values in every]) for name in every[0]}
    sums = {
        name: Measured(*(np.array([values[name][part] for values in tokens]) for part in (0, 1))) for name in tokens[0]
    }
    return means | sums, found


def change(before: Measured, after: Measured) -> Estimate:
    """After less before, paired; a model with one seed is compared with every seed of the other."""
    seeds = len(after.totals_SP)
    if len(before.totals_SP) < seeds:
        before = Measured(*(np.repeat(part[:1], seeds, axis=0) for part in before))
    return difference(before, after)


def shifts(before: Answers, after: Answers) -> dict[str, int]:
    """Problems that N samples of two models leave unsolved."""
    lost = (before.c > 0) & (after.c == 0)
    gained = (before.c == 0) & (after.c > 0)
    return {"both": int(((before.c == 0) & (after.c == 0)).sum()), "lost": int(lost.sum()), "gained": int(gained.sum())}


def sets(found: Mapping[str, Answers]) -> dict[str, int]:
    """How many problems exactly these models leave unsolved."""
    each: dict[str, Unsolved] = {name: unsolved(a.problems, a.n, a.c, N) for name, a in found.items()}
    return {" & ".join(models): size for models, size in overlap(each).sizes.items()}


def draw_pass(axes: Axes, every: Mapping[str, dict[str, Measured]]) -> None:
    ks = powers_of_two(N)
    for name, of in every.items():
        seeds = np.array([of[f"pass@{k}"].totals_SP.mean(axis=1) for k in ks])
        axes.plot(ks, seeds, color=COLOURS[name], linewidth=0.5, alpha=0.6)
        axes.plot(ks, seeds.mean(axis=1), "o-", color=COLOURS[name], markersize=3.5, linewidth=1.8, label=name)
    axes.set_xscale("log", base=2)
    axes.set_xticks(ks, [str(k) for k in ks])
    axes.set(xlabel="k", ylim=(0.15, 1))
    axes.legend(frameon=False, fontsize=8, loc="lower right")


def draw_means(axes: Axes, every: Mapping[str, dict[str, Measured]], names: Mapping[str, Callable[..., Any]]) -> None:
    """A group of bars for each quantity, with intervals."""
    width = 0.8 / len(every)
    for i, (name, of) in enumerate(every.items()):
        at = np.arange(len(names)) + width * (i - (len(every) - 1) / 2)
        means = [estimate(of[quantity]) for quantity in names]
        error = [[m.value - m.low for m in means], [m.high - m.value for m in means]]
        bars = axes.bar(at, [m.value for m in means], width * 0.92, yerr=error, color=COLOURS[name], capsize=2)
        axes.bar_label(bars, [names[q](m.value) for q, m in zip(names, means, strict=True)], fontsize=7, padding=1)
    axes.set_xticks(range(len(names)), list(names))


def draw_sets(axes: Axes, rows: Mapping[str, Mapping[str, float]]) -> None:
    """Of every model: problems that it and the base leave unsolved, only it, only the base."""
    parts = {"both": (GREY, "unsolved by both"), "lost": (RED, "by it alone"), "gained": (SKY, "by the base alone")}
    for y, row in enumerate(rows.values()):
        left = 0.0
        for part, (colour, label) in parts.items():
            bar = axes.barh(y, row[part], 0.6, left=left, color=colour, label=None if y else label)
            axes.bar_label(bar, [f"{row[part]:.3g}"] if row[part] else [""], label_type="center", fontsize=8)
            left += row[part]
    axes.set_yticks(range(len(rows)), list(rows))
    axes.invert_yaxis()
    axes.set_xlabel(f"of 300 problems, {N} samples each")
    axes.legend(frameon=False, fontsize=8, loc="upper right")


def models(folder: Path) -> dict[str, dict[str, Path]]:
    """The runs of every model, made where they are missing."""
    sft = longer_sft(folder)
    return {
        "base": {"base": evaluated(folder, "base", BASE)},
        "SFT": {"sft": evaluated(folder, "sft-evaluated", sft)},
        "RL": {f"grpo-{s}": trained(folder, "grpo", "grpo", s) for s in SEEDS},
    }


def main() -> None:
    asked = arguments_with_runs(__doc__).parse_args()
    every, found = {}, {}
    for name, runs in models(asked.runs).items():
        every[name], found[name] = quantities(runs, asked.runs)
    again = answers(evaluated(asked.runs, "base-again", BASE, "evaluate.seed=1"))
    base, sft = found["base"][0], found["SFT"][0]
    against = {"base,\nagain": [again], "SFT": [sft], "RL, mean\nof seeds": found["RL"]}
    moved = {name: [shifts(base, each) for each in seeds] for name, seeds in against.items()}
    mean = {name: {part: float(np.mean([r[part] for r in rows])) for part in rows[0]} for name, rows in moved.items()}

    titles = ["pass@k", f"different answers in {DRAWN} samples", "64-rollout unsolvable problems", "tokens"]
    figure, (passed, answered, left, branching) = panels(titles, (13, 8.5), rows=2)
    draw_pass(passed, every)
    one, three = "{:.1f}".format, "{:.3f}".format
    draw_means(answered, every, {f"distinct answers in {DRAWN}": one, f"distinct correct answers in {DRAWN}": one})
    answered.set_xticks((0, 1), ("all answers", "correct answers"))
    draw_sets(left, mean)
    draw_means(branching, every, {"branching factor": three, "entropy": three})
    branching.set_xticks((0, 1), ("rollout branching factor (95 %)", "entropy, nats"))
    beta = fit_pass_rates(base.n, base.c)
    numbers = {
        "models": {name: {q: estimate(m)._asdict() for q, m in of.items()} for name, of in every.items()},
        "less_base": {
            name: {q: change(every["base"][q], every[name][q])._asdict() for q in every[name]} for name in ("SFT", "RL")
        },
        "unsolved_against_base": {name.replace("\n", " "): rows for name, rows in moved.items()},
        "unsolved_by_exactly": [sets({"base": base, "SFT": sft, "RL": rl}) for rl in found["RL"]],
        "base_unsolved_that_64_more_would_solve": beta.unlucky([N] * int((base.c == 0).sum()), more=N),
    }
    keep("sft_and_rl", numbers, figure, asked.out, seeds={"RL": list(SEEDS), "SFT": [2]})


if __name__ == "__main__":
    main()
