"""The sections of a bench's results, shared by the HTML page and the Markdown page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from outrider.bench.blocks import BlockCell, apart_from_seeds, block
from outrider.bench.crossed import Estimate
from outrider.bench.report import BenchReport
from outrider.bench.results import Arm
from outrider.measure import Interval
from outrider.report.content import Section, TableBlock, Unit

UNITS = {"tokens": "generated tokens", "steps": "steps", "seconds": "seconds of training"}
NEVER = "never"


def sections(report: BenchReport) -> list[Section]:
    """Return all non-empty sections in reading order."""
    parts: list[Section | None] = [results(report)]
    if report.base and len(report.arms) > 1:
        parts += [change(report), equal_spent(report), equal_pass1(report), reached(report), by_rate(report)]
    parts += [final_test(report), turned(report), spending(report), from_before(report)]
    return [part for part in parts if part is not None]


def results(report: BenchReport, only: Sequence[str] | None = None) -> Section:
    """Return a section with every recipe's results at the end of its budget. ``only`` selects the metrics (None:
    all)."""
    names = list(report.quantities if only is None else only)
    columns = ["recipe", "seeds", *names]
    start = [apart_from_seeds(report.value(report.before, q)) if q in report.policy else None for q in names]
    rows: list[list[BlockCell]] = [["before training", None, *start]]
    rows += [[arm.name, len(arm.seeds), *(report.value(arm, q) for q in names)] for arm in report.arms]
    table = block("results", "Results at the end of the budget", columns, rows, units=_shares(names))
    return Section("results", "Results", _RESULTS.format(points=report.bench.points), [], [table])


def change(report: BenchReport) -> Section:
    """Return a section with each recipe's differences in pass@k and other metrics from the base recipe."""
    base = report.bench.base
    table = _changes("change", f"Change from {base}", report, report.against_base, _others(report))
    return Section("change", f"Change from {base}", _CHANGE, [], [table])


def from_before(report: BenchReport) -> Section:
    """Return a section with each recipe's changes in pass@k and other metrics during training."""
    table = _changes("from-before", "Change from before training", report, report.against_before, report.arms)
    return Section("from-before", "Change from before training", _CHANGE, [], [table])


def equal_spent(report: BenchReport) -> Section:
    """Return a section with each recipe's difference in pass@k from the base recipe after equal numbers of steps. If
    the budget is in steps, the difference is after equal numbers of tokens instead."""
    rows: list[list[BlockCell]] = []
    for arm in _others(report):
        found = [report.at_equal_other(arm, k) for k in report.before.ks]
        place = round(found[0].spent) if math.isfinite(found[0].spent) else None
        rows.append([arm.name, found[0].change.seeds, place, *(each.change for each in found)])
    names = [f"pass@{k}" for k in report.before.ks]
    title = f"Change from {report.bench.base} at equal {report.other}"
    columns = ["recipe", "seeds", f"at {report.other}", *names]
    note = _excluded(report, lambda arm: report.at_equal_other(arm, report.before.ks[-1]).change.problems)
    table = block("equal-spent", title, columns, rows, note, dict.fromkeys(names, "points"))
    return Section("equal-spent", title, _EQUAL_SPENT[report.other], [], [table])


def equal_pass1(report: BenchReport) -> Section | None:
    """Return a section with each recipe's difference in pass@k from the base recipe at the same pass@1. Return None if
    each problem has only one sample."""
    ks = [k for k in report.before.ks if k > 1]
    if not ks:
        return None
    rows: list[list[BlockCell]] = []
    for arm in _others(report):
        found = [report.at_equal_pass1(arm, k) for k in ks]
        rows.append([arm.name, found[0].change.seeds, _alone(found[0].pass1), *(each.change for each in found)])
    names = [f"pass@{k}" for k in ks]
    title = f"Change from {report.bench.base} at equal pass@1"
    units: dict[str, Unit] = {"at pass@1": "percent", **dict.fromkeys(names, "points")}
    note = _excluded(report, lambda arm: report.at_equal_pass1(arm, ks[-1]).change.problems)
    table = block("equal-pass-at-1", title, ["recipe", "seeds", "at pass@1", *names], rows, note, units)
    return Section("equal-pass-at-1", title, _EQUAL_PASS1.format(base=report.bench.base), [], [table])


def reached(report: BenchReport) -> Section:
    """Return a section that shows when each recipe first reaches the base recipe's final pass@1, and each recipe's mean
    pass@1 during training."""
    rows: list[list[BlockCell]] = []
    for arm in report.arms:
        place = report.reached(arm)
        there: list[BlockCell] = [
            NEVER if math.isnan(x) else round(x) for x in (place.steps, place.tokens, place.seconds)
        ]
        against = None if arm is report.base else report.on_the_way_against_base(arm)
        rows.append([arm.name, *there, report.on_the_way(arm), against])
    title = f"Cost of reaching the final pass@1 of {report.bench.base}"
    columns = ["recipe", "steps", "tokens", "seconds", "mean pass@1", "change"]
    units: dict[str, Unit] = {"mean pass@1": "percent", "change": "points"}
    table = block("reached", title, columns, rows, units=units)
    return Section("reached", title, _REACHED, [], [table])


def by_rate(report: BenchReport) -> Section:
    """Return a section with pass@1 for each class of problems, grouped by pass rate before training."""
    base, first = report.base, report.by_rate(report.again)
    assert base is not None
    rate = [f"{name} ({e.problems})" for name, e in first.items()]
    rows: list[list[BlockCell]] = [["before training, drawn again", *map(apart_from_seeds, first.values())]]
    rows += [[base.name, *report.by_rate(base).values()]]
    samples = _samples(report)
    title = "By the pass rate before training"
    table = block("by-rate", title, ["recipe", *rate], rows, units=_shares(rate))
    changes: list[list[BlockCell]] = [[arm.name, *report.by_rate_against_base(arm).values()] for arm in _others(report)]
    units: dict[str, Unit] = dict.fromkeys(rate, "points")
    against = block("by-rate-change", f"Change from {base.name}", ["recipe", *rate], changes, units=units)
    return Section("by-rate", title, _BY_RATE.format(samples=samples), [], [table, against])


def final_test(report: BenchReport) -> Section | None:
    """Return a section with the results of all final policies on the final test set; None if the bench has no final
    test set."""
    kept = report.final_test
    if kept is None:
        return None
    count, base = len(kept.before.end.evaluations[0].tallies), report.bench.base
    skipped = report.bench.final_test_from(len(report.before.end.evaluations[0].tallies))
    [table] = results(kept, kept.policy).tables
    tables = [table]
    if kept.base and len(kept.arms) > 1:
        tables += [_changes("final-test-change", f"Change from {base}", kept, kept.against_base, _others(kept))]
    text = _FINAL_TEST.format(count=count, first=skipped + 1, last=skipped + count)
    return Section("final-test", "Final test set", text, [], tables)


def turned(report: BenchReport) -> Section:
    """Return a section with the share of problems that became solved during training, and the share that became
    unsolved."""
    again = report.turned(report.again).values()
    rows: list[list[BlockCell]] = [["before training, drawn again", *map(apart_from_seeds, again)]]
    rows += [[arm.name, *report.turned(arm).values()] for arm in report.arms]
    title, names = "Problems newly solved, and lost", ["newly solved", "lost"]
    table = block("turned", title, ["recipe", *names], rows, units=_shares(names))
    return Section("turned", title, _TURNED.format(samples=_samples(report)), [], [table])


def spending(report: BenchReport) -> Section:
    """Return a section on the use of the generated tokens. For each exploration stage (recipe component that requests
    rollouts), the section shows the stage's share of the tokens and its successes per 1,000 tokens."""
    of_recipe, of_stage = ["not trained on", "mixed groups", "with a gradient"], ["share", "rollouts a step"]
    of_stage += ["successes", "newly solved"]
    rows: list[list[BlockCell]] = []
    for arm in report.arms:
        if arm.spent is None:
            continue
        whole = map(_known, (arm.spent.unused, arm.spent.mixed, arm.spent.gradient))
        of_arm: list[BlockCell] = list(whole)
        for s in arm.spent.stages:
            numbers = [_known(s.share), round(s.rollouts), _known(s.successes), _known(s.solved)]
            rows.append([arm.name, s.stage.partition("-")[2], *numbers, *of_arm])
    units = _shares([of_stage[0], *of_recipe])
    table = block("spending", "Where the tokens went", ["recipe", "stage", *of_stage, *of_recipe], rows, units=units)
    return Section("spending", "Where the tokens went", _SPENT, [], [table])


def _changes(
    id: str, title: str, report: BenchReport, of: Callable[[Arm, str], Estimate], arms: Sequence[Arm]
) -> TableBlock:
    rows: list[list[BlockCell]] = []
    for arm in arms:
        found = [of(arm, quantity) for quantity in report.policy]
        if any(not math.isnan(e.value) for e in found):
            rows.append([arm.name, found[0].seeds, *found])
    units: dict[str, Unit] = {q: "points" for q in report.policy if q != "entropy"}
    return block(id, title, ["recipe", "seeds", *report.policy], rows, units=units)


def _others(report: BenchReport) -> list[Arm]:
    return [arm for arm in report.arms if arm is not report.base]


def _samples(report: BenchReport) -> int:
    return report.before.end.evaluations[0].tallies[0].samples


def _shares(names: Sequence[str]) -> dict[str, Unit]:
    return {name: "percent" for name in names if name not in ("entropy", "tokens", "steps", "seconds")}


def _alone(share: float) -> Interval | None:
    """Return a table cell that shows the share without a confidence interval; None if the share is unknown."""
    return Interval(share, math.nan, math.nan, 0) if math.isfinite(share) else None


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number


def _excluded(report: BenchReport, used_by: Callable[[Arm], int]) -> str:
    """Return a sentence that says how many problems each recipe's comparison excludes; "" if no problem is excluded."""
    count = len(report.before.end.evaluations[0].tallies)
    used = {arm.name: used_by(arm) for arm in _others(report)}
    fewer = ", ".join(f"{name} {count - n}" for name, n in used.items() if 0 < n < count)
    return f"Problems excluded because a sample could not be verified: {fewer} of {count}." if fewer else ""


_RESULTS = (
    "Means over seeds with 95 % confidence intervals. An interval covers the choice of seeds, of problems, and their "
    "interaction (two-way layout, Student's t with Satterthwaite's degrees of freedom). For tokens, steps and "
    "seconds, it covers the seeds only. Two intervals can overlap although the paired change excludes 0. pass@k is "
    "the unbiased estimate, entropy is in nats per token, and tokens are those generated in training. Seconds are "
    "wall time on one core, without evaluation and checkpoints. Each run was evaluated at {points} equal shares of "
    "its budget."
)
_CHANGE = (
    "Paired by seed and by problem, with 95 % confidence intervals over both. Intervals are not corrected for "
    "multiple comparisons: of twenty true zeros, one excludes 0 by chance."
)
_BETWEEN = (
    "interpolated linearly between two evaluations. A linear interpolation lies below a concave curve, which favours "
    "the recipe that ends there; the intervals do not cover this bias. A cell is empty if a recipe ends before the "
    "first evaluation of the other one."
)
_EQUAL_SPENT = {
    "steps": "The comparison is at the total of the run with the fewest steps. A recipe with few updates per token "
    f"is not penalised. The other recipe is {_BETWEEN}",
    "tokens": "The comparison is at the total of the run with the fewest tokens. A recipe with many tokens per step "
    f"is not favoured. The other recipe is {_BETWEEN}",
}
_EQUAL_PASS1 = (
    "Change of pass@k from {base} where both recipes have the same pass@1, the highest that both reach. Progress "
    "along the same curve does not count. One recipe has its last or best evaluation there; the other is "
    "interpolated linearly between two evaluations. Intervals are as above and do not cover the error of "
    "interpolation: with few evaluations, the comparison is coarse."
)
_REACHED = (
    "Steps, tokens and seconds until a recipe reaches that pass@1, interpolated linearly between evaluations. The "
    "mean pass@1 is the area under the curve over the budget."
)
_BY_RATE = (
    "pass@1 by pass rate before training, from {samples} samples: 0 (never), up to one eighth (seldom), up to one "
    "half (often), or more (mostly). The class of a problem is noisy, so the row before training uses a second, "
    "independent draw. The number of problems is in brackets."
)
_FINAL_TEST = (
    "Last policies, measured once on {count} other held-out problems, {first} to {last} of the task. No choice in "
    "this bench used these problems."
)
_TURNED = (
    "Newly solved: share of problems with no success in {samples} samples before training and at least one at the "
    "end. Lost: the reverse. The row before training compares two independent draws of that policy, so its shares "
    "are due to chance."
)
_SPENT = (
    "Over whole runs and all seeds. By stage: share of the tokens, rollouts per step, successes per 1,000 tokens, "
    "and problems with their first success of a step per 1,000 tokens. By recipe: share of tokens not trained on, "
    "share of mixed groups (with successes and failures), and tokens with a gradient per generated token, counted "
    "once per update."
)
