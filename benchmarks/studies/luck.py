"""How often is an answer right by chance, where a response is verified by its last number alone?

Claim (any report of pass@k on problems whose answers are small numbers): with many samples some are right by chance, so
pass@k at large k measures luck too.

Ours: the base of the setting ``prose``, 64 samples of each of the first 300 held-out problems of two to eight steps.
*By chance*: the answers given to one problem, verified by the answer to another problem with as many steps; pass@k of
each pair as of a problem. What a policy knows of a problem is in the first and not in the second, but for what answers
of a level share; so where both agree, nothing more was known.

Command: ``python benchmarks/studies/luck.py [--runs DIR]`` (three minutes of two cores where DIR holds nothing).
Seed 0.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from _models import arguments_with_runs, command
from _study import BLUE, GREY, keep, panels

from outrider.config import load_recipe
from outrider.measure.passk import pass_at_k
from outrider.record import Problem, StopReason
from outrider.runs.folder import RunFolder

PROBLEMS, SAMPLES, KS = 300, 64, (1, 8, 16, 64)
RECIPE = load_recipe("grpo", ["task.word_problems.steps=[2,3,4,5,6,7,8]"], setting="prose")


def measured(out: Path) -> None:
    """Evaluate the base; a finished evaluation is read."""
    if not (out / "table.md").exists():
        task = json.dumps({RECIPE.task.name: RECIPE.task.model_dump(mode="json")})
        asked = ["--task", task, "--n", SAMPLES, "--problems", PROBLEMS, "evaluate.greedy=false"]
        command("evaluate", RECIPE.model, *asked, f"sample.max_tokens={RECIPE.sample.max_tokens}", "--out", out)


def pass_rates(given: Iterable[tuple[Sequence[str], str]], k: int) -> float:
    """Mean of pass@k over pairs of the answers that were given and the right one.

    >>> pass_rates([(["7", "8", "7", ""], "7"), (["9", "9", "8", "8"], "7")], 1)
    0.25
    """
    return fmean(float(pass_at_k(len(answers), answers.count(right), k)) for answers, right in given)


def by_level(problems: Sequence[Problem], answers: Mapping[str, Sequence[str]]) -> dict[str, dict[str, float]]:
    """For each number of steps pass@k, by the problem's own answer and by those of the others."""
    levels: dict[str, list[Problem]] = defaultdict(list)
    for problem in problems:
        levels[problem.level].append(problem)
    found = {}
    for level, members in sorted(levels.items()):
        own = [(answers[problem.id], str(problem.answer)) for problem in members]
        others = [(answers[one.id], str(other.answer)) for one in members for other in members if one is not other]
        found[level] = {
            **{f"pass@{k}": pass_rates(own, k) for k in KS},
            **{f"pass@{k} by chance": pass_rates(others, k) for k in KS},
            "most common answer": Counter(str(problem.answer) for problem in members).most_common(1)[0][1]
            / len(members),
        }
    return found


def main() -> None:
    asked = arguments_with_runs(__doc__).parse_args()
    out = asked.runs / "luck"
    measured(out)
    answers: dict[str, list[str]] = defaultdict(list)
    for row in RunFolder(out).rollouts.table(["problem_id", "answer", "stop"], "evaluate").to_pylist():
        truncated = StopReason(row["stop"]).truncates  # and not right, whatever its last number is
        answers[row["problem_id"]].append("" if truncated else row["answer"] or "")
    numbers: dict[str, Any] = by_level(RECIPE.task.heldout(PROBLEMS), answers)
    figure, axes = panels([f"pass@{k}" for k in KS], (13, 3.2))
    for k, each in zip(KS, axes, strict=True):
        for name, colour in (("", BLUE), (" by chance", GREY)):
            label = name.strip() or "own answer"
            each.plot([*numbers], [row[f"pass@{k}{name}"] for row in numbers.values()], "o-", color=colour, label=label)
        each.set(xlabel="steps", ylim=(0, None))
    axes[0].legend(frameon=False)
    keep("luck", numbers, figure, asked.out, seeds=[0])


if __name__ == "__main__":
    main()
