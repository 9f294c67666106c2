"""The table and the page of a bench, in markdown: numbers, their intervals, how to reproduce them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from outrider.bench.crossed import Estimate
from outrider.bench.report import BenchReport
from outrider.bench.results import Arm
from outrider.bench.tables import NONE, as_change, as_number, markdown


def table(report: BenchReport, only: Sequence[str] | None = None) -> str:
    """All recipes at the end of their budgets, in all quantities or some: mean over seeds, and half of the interval."""
    quantities = report.quantities if only is None else only
    headings = ["recipe", "seeds", *quantities]
    before = [as_number(report.value(report.before, q), q) for q in report.policy]
    rows = [["*before training*", "", *before, *[NONE] * (len(quantities) - len(before))]]
    for arm in report.arms:
        rows.append([arm.name, str(len(arm.seeds)), *(as_number(report.value(arm, q), q) for q in quantities)])
    return markdown(headings, rows)


def differences(report: BenchReport, change: Callable[[Arm, str], Estimate]) -> str:
    """Paired changes, bold where the interval excludes 0; from the base recipe, or from before training."""
    rows = []
    for arm in report.arms:
        results = [change(arm, q) for q in report.policy]
        if any(not math.isnan(e.value) for e in results):
            rows.append([arm.name, str(results[0].seeds), *map(as_change, results)])
    return markdown(["recipe", "seeds", *report.policy], rows)


def page(report: BenchReport, environment: Mapping[str, Any]) -> str:
    """The whole page: all results, and the settings to assess and to repeat them."""
    bench, base = report.bench, report.bench.base
    others = [arm for arm in report.arms if arm.name != base]
    count = len(report.before.end.evaluations[0].tallies)
    samples = report.before.end.evaluations[0].tallies[0].samples
    parts = [
        f"# {', '.join(bench.recipes)} at {bench.budget:,.10g} {_UNITS[bench.unit]} each",
        f"{bench.seeds} seeds per recipe; {count} held-out problems, the same for all, {samples} samples each at the "
        "temperature of training. A run stops at the end of the step in which its budget is spent.",
        *([_failed(report)] if report.failures else []),
        table(report),
        _COVERS if bench.seeds > 1 else _COVERS_ONE,
        "![pass@1 against pass@k along training, and both over generated tokens](frontier.png)",
        _FRONTIER.format(points=bench.points),
    ]
    if others and report.base:
        parts += [f"## Change from {base}", _PAIRED, _without(differences(report, report.against_base), base)]
        parts += [f"## Change from {base} at equal {report.other}", _EQUAL_SPENT[report.other], _equal_spent(report)]
        if len(report.before.ks) > 1:
            parts += [f"## Change from {base} at equal pass@1", _EQUAL.format(base=base), _equal(report)]
        parts += [f"## Where the final pass@1 of {base} is reached, and pass@1 on the way", _REACHED, _reached(report)]
        parts += ["## By the pass rate before training", _BY_RATE.format(samples=samples, base=base), _by_rate(report)]
    if report.untouched is not None:
        parts += ["## On problems that were kept back", *_untouched(report, report.untouched)]
    parts += ["## Problems newly solved, and lost", _TURNED.format(samples=samples), _turned(report)]
    parts += ["## Where the tokens went", _SPENT, _spending(report)]
    parts += ["## Change from before training", differences(report, report.against_before)]
    if bench.tune is not None:
        parts += ["## Tuning", *_tuning(report)]
    parts += ["## How this was made", _made(report, environment)]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


_UNITS = {"tokens": "generated tokens", "steps": "steps", "seconds": "seconds of training"}

_COVERS = (
    "±: half of the 95 % interval of a mean over seeds. It covers the choice of seeds, of problems, and their "
    "interaction (two-way layout, Student's t with Satterthwaite's degrees of freedom); for tokens, steps and seconds, "
    "the seeds alone. Intervals of two recipes may overlap although their paired difference excludes 0. pass@k is the "
    "unbiased estimate; the entropy is in nats per token; tokens are those of training, without evaluations; seconds "
    "are wall time on one core, without evaluating and saving, pauses of the machine included."
)
_COVERS_ONE = (
    "±: half of the 95 % interval over problems. **There is one seed per recipe, and no interval here covers it: "
    "nothing on this page ranks recipes.** pass@k is the unbiased estimate; the entropy is in nats per token; tokens "
    "are those of training, without evaluations; seconds are wall time on one core, without evaluating and saving."
)
_FRONTIER = (
    "The frontier: each line is a recipe's mean over seeds, from the policy before training (star) to the end of the "
    "budget (large marker), measured at {points} equal shares of the budget. Dots, and thin lines on the right, are "
    "seeds. Bars at a marker are the interval of its paired difference, as in the table below: problems that are hard "
    "for all move all recipes together and are no part of it. Up and to the right is better on both; two recipes on "
    "one line differ in how far they have gone, not in kind."
)
_PAIRED = (
    "Paired by seed and by problem, with intervals as above; bold where 0 is excluded. The intervals are those of "
    "single comparisons: of twenty true zeros one is bold."
)
_EQUAL = (
    "How far a recipe lies above the line of {base} where both have the same pass@1, so that having gone further along "
    "one line does not count. Taken at the highest pass@1 that both have reached: there one of them ends, or has its "
    "best, and the other is between two evaluations, on a straight line through their means. Paired, with intervals as "
    "above, which do not cover how far from straight a line is: with few evaluations it is coarse."
)
_BETWEEN = (
    "on straight lines between evaluations. A line lies below a curve that rises fast at first, so the recipe that "
    "ends there looks too good by that much, which no interval covers; a dash where it ends before the other is first "
    "measured."
)
_EQUAL_SPENT = {
    "steps": f"The same after as many steps as the run of the two that made fewest, {_BETWEEN} A recipe that makes few "
    "updates with its tokens is not behind for that alone.",
    "tokens": f"The same after as many tokens as the run of the two that drew fewest, {_BETWEEN} A recipe that draws "
    "many tokens a step is not ahead for that alone.",
}
_SPENT = (
    "Over whole runs, all seeds. Successes: rollouts per 1,000 tokens of the stage; newly solved: problems that had no "
    "success in their step before, per 1,000 tokens. Of the recipe as a whole: the share of its tokens in rollouts "
    "that nothing was trained on, of its groups that held both successes and failures, and how many tokens had a "
    "gradient per generated token, each as often as it was trained on. Equal tokens are not equal time: the seconds of "
    "each recipe are in the first table."
)
_REACHED = (
    "On straight lines between the means of the evaluations, so no finer than these stand apart. On the way: the mean "
    "of pass@1 over the budget, the area under its curve, and its paired change."
)
_BY_RATE = (
    "pass@1 of the problems that none of {samples} samples solved before training (never), up to an eighth of them "
    "(seldom), up to a half (often), or more (mostly); chance has a part in that, so the policy before training is "
    "shown by other samples. Below {base}: changes from it, paired, with intervals as above."
)
_UNTOUCHED = (
    "The last policies, measured once on {count} other held-out problems ({first} to {last} of the task's): this bench "
    "has chosen no setting and watched no curve on them. Changes from {base} as above."
)
_TURNED = (
    "Shares of the problems that none of {samples} samples solved before training and one or more at the end, and of "
    "those of which the reverse is true. Drawn again, the policy before training has such problems by chance alone."
)


def _failed(report: BenchReport) -> str:
    return "**Runs that did not finish, and are in no number:**\n\n" + "\n".join(f"- {f}" for f in report.failures)


def _without(text: str, name: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith(f"| {name} |"))


def _equal(report: BenchReport) -> str:
    ks = [k for k in report.before.ks if k > 1]
    rows = []
    for arm in report.arms:
        if arm is not report.base:
            results = [report.at_equal_pass1(arm, k) for k in ks]
            place = f"{results[0].pass1:.3f}" if math.isfinite(results[0].pass1) else NONE
            rows.append([arm.name, str(results[0].change.seeds), place, *(as_change(f.change) for f in results)])
    return markdown(["recipe", "seeds", "at pass@1", *(f"pass@{k}" for k in ks)], rows) + _left_out(
        report, lambda arm: report.at_equal_pass1(arm, ks[-1]).change.problems
    )


def _equal_spent(report: BenchReport) -> str:
    ks, rows = report.before.ks, []
    for arm in report.arms:
        if arm is not report.base:
            results = [report.at_equal_other(arm, k) for k in ks]
            place = f"{results[0].spent:,.0f}" if math.isfinite(results[0].spent) else NONE
            rows.append([arm.name, str(results[0].change.seeds), place, *(as_change(f.change) for f in results)])
    table = markdown(["recipe", "seeds", f"at {report.other}", *(f"pass@{k}" for k in ks)], rows)
    return table + _left_out(report, lambda arm: report.at_equal_other(arm, ks[-1]).change.problems)


def _left_out(report: BenchReport, used_by: Callable[[Arm], int]) -> str:
    """A sentence for the recipes that were compared on fewer problems; nothing where there is none."""
    count = len(report.before.end.evaluations[0].tallies)
    used = {arm.name: used_by(arm) for arm in report.arms if arm is not report.base}
    fewer = ", ".join(f"{name} {count - n}" for name, n in used.items() if 0 < n < count)
    return f"\n\nProblems left out, with a sample that could not be verified: {fewer} of {count}." if fewer else ""


def _reached(report: BenchReport) -> str:
    rows = []
    for arm in report.arms:
        result = report.reached(arm)
        there = [_plain(x) for x in (result.steps, result.tokens, result.seconds)]
        change = NONE if arm is report.base else as_change(report.on_the_way_against_base(arm))
        rows.append([arm.name, *there, as_number(report.on_the_way(arm), "pass@1"), change])
    return markdown(["recipe", "steps", "tokens", "seconds", "pass@1 on the way", "change"], rows)


def _turned(report: BenchReport) -> str:
    named = [("*drawn again*", report.again), *((arm.name, arm) for arm in report.arms)]
    rows = [[name, *(as_number(share, "") for share in report.turned(arm).values())] for name, arm in named]
    return markdown(["recipe", "newly solved", "lost"], rows)


def _by_rate(report: BenchReport) -> str:
    first = report.by_rate(report.again)
    assert report.base is not None
    headings = ["recipe", *(f"{name} ({e.problems})" for name, e in first.items())]
    rows = [["*drawn again*", *(as_number(e, "pass@1") for e in first.values())]]
    rows += [[report.base.name, *(as_number(e, "pass@1") for e in report.by_rate(report.base).values())]]
    others = [arm for arm in report.arms if arm is not report.base]
    rows += [[arm.name, *(as_change(e) for e in report.by_rate_against_base(arm).values())] for arm in others]
    return markdown(headings, rows)


def _untouched(report: BenchReport, kept: BenchReport) -> list[str]:
    """Ends, and their changes from the base recipe; tokens, steps and seconds are those above."""
    count = len(kept.before.end.evaluations[0].tallies)
    skipped = report.bench.untouched_from(len(report.before.end.evaluations[0].tallies))
    base = report.bench.base
    sentence = _UNTOUCHED.format(count=count, first=skipped + 1, last=skipped + count, base=base)
    parts = [sentence, table(kept, kept.policy)]
    others = any(arm.name != base for arm in kept.arms)
    return [*parts, _without(differences(kept, kept.against_base), base)] if others and kept.base else parts


def _spending(report: BenchReport) -> str:
    columns = [
        "tokens",
        "rollouts a step",
        "successes",
        "newly solved",
        "not trained on",
        "mixed groups",
        "with a gradient",
    ]
    rows = []
    for arm in report.arms:
        if arm.spent is None:
            continue
        once = [arm.name, *map(_percent, (arm.spent.unused, arm.spent.mixed, arm.spent.gradient))]
        for s in arm.spent.stages:
            numbers = [_percent(s.share), f"{s.rollouts:,.0f}", f"{s.successes:.2f}", f"{s.solved:.2f}"]
            rows.append([once[0], s.stage.partition("-")[2], *numbers, *once[1:]])
            once = [""] * 4
    return markdown(["recipe", "stage", *columns], rows)


def _percent(share: float) -> str:
    return NONE if math.isnan(share) else f"{share:.0%}"


def _tuning(report: BenchReport) -> list[str]:
    tune = report.bench.tune
    assert tune is not None
    choices = report.choices
    names = list(next(iter(choices.values())).tried[0].scores) if choices else []
    for choice in choices.values():
        names = max(names, *(list(t.scores) for t in choice.tried), key=len)
    shown = [name for name in names if name != "criterion"]
    rows = []
    for recipe, choice in choices.items():
        for place, t in enumerate(choice.tried):
            mark = "**chosen**" if place == choice.chosen else f"{t.failed} failed" if t.failed else ""
            if place == choice.chosen and choice.at_edge:
                which = f" of {' and '.join(choice.at_edge)}" if len(tune.values) > 1 else ""
                mark += f", at the edge of what was tried{which}"
            cells = [as_number(t.scores[name], name) if name in t.scores else NONE for name in ["criterion", *shown]]
            values = [f"{v:g}" if isinstance(v, float) else str(v) for v in t.values.values()]
            rows.append([recipe, *values, *cells, mark])
    seeds = f"{tune.seeds} seed{'s' if tune.seeds > 1 else ''}"
    sentence = (
        f"{_listed(tune.values)}, for each recipe by the same budget: {seeds} of its own x {tune.tokens:,} generated "
        f"tokens per value, measured on {tune.problems} held-out problems that the comparison does not use. Chosen is "
        f"the first value whose {_CRITERIA[tune.by]} is within one standard error of the largest, paired by problem."
    )
    return [sentence, markdown(["recipe", *tune.values, "criterion", *shown, ""], rows)]


def _listed(keys: Iterable[str]) -> str:
    return " with ".join(f"`{key}`" for key in keys)


_CRITERIA = {
    "pass@1": "pass@1",
    "pass@n": "pass@n (with all n samples)",
    "mean": "mean of pass@1 and pass@n (with all n samples)",
}


def _made(report: BenchReport, environment: Mapping[str, Any]) -> str:
    seeds = (
        f"Seeds: {', '.join(map(str, report.bench.compared_seeds))}, each of the draws and of the order of problems."
    )
    command = shlex.join(["outrider", *environment["command"][1:]])
    begun = [
        f"Begun {_where(environment)}.",
        *(f"Gone on with {_where(each)}." for each in environment.get("later", [])),
    ]
    return (
        f"```\n{command}\n```\n\n{' '.join([*begun, seeds])}\n\n"
        "Each run is a folder of its own under `cells/`, with its rollouts, metrics and log; `recipes/` has the "
        "recipes as they were run, `numbers.csv` every evaluation of every run, `tallies.csv` the successes on every "
        "problem in each, `results.json` every number above."
    )


def _where(environment: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in environment["versions"].items())
    commit = environment["git"] or "unknown"
    if commit.endswith("-dirty"):
        commit = f"{commit}: **uncommitted changes, so no commit makes these numbers again**"
    return f"{environment['started']} on {environment['platform']}; {versions}; commit {commit}"


def _plain(value: float) -> str:
    return "never" if math.isnan(value) else f"{value:,.0f}"
