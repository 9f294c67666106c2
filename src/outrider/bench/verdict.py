"""Writes the first sentences of a bench's page: the best recipe, the changes, and the uncertainty of the changes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from outrider.bench.blocks import FEWEST_SEEDS
from outrider.bench.crossed import Estimate
from outrider.bench.report import BenchReport
from outrider.bench.results import Arm
from outrider.bench.sections import UNITS
from outrider.report.digits import points

_SHORT = 3
"""Maximum number of recipes whose changes are described in sentences. With more recipes, only the table shows the
changes."""


def verdict(report: BenchReport) -> list[str]:
    """Return the verdict as sentences about the best recipe, then about each other recipe, and finally about the
    uncertainty.

    The metrics are pass@1 and pass@k, where k is the number of samples per problem. A recipe is ahead of the base
    recipe in a metric if the 95 % interval of the paired difference between the two recipes lies above 0. If several
    recipes are ahead, the first sentence names the recipe with the largest change in pass@1, or in pass@k if no recipe
    is ahead in pass@1.

    Degenerate cases: recipes are ranked only if at least two seeds are finished for both the base recipe and another
    recipe. Otherwise, the first sentence says that the comparison cannot show which recipe is better. With one seed and
    up to three recipes, the next sentences describe how training changed each metric. If the base recipe has no
    finished run, or if there is no other recipe, each recipe is compared with the policy before training.
    """
    base = report.base
    others = [arm for arm in report.arms if arm is not base]
    if not report.arms:
        return ["No run is finished."]
    if base is None or not others:
        lines = [_against_start(report, arm) for arm in report.arms]
        return [*lines, " ".join([_sizes(report), *_few(min(len(arm.seeds) for arm in report.arms))])]
    if report.bench.seeds == 1:
        first = "With one seed per recipe, this comparison cannot show which recipe is better."
        changes = [_against_start(report, arm) for arm in report.arms] if len(report.arms) <= _SHORT else []
        return [first, *changes, *(_of_one_seed(report, arm) for arm in others)]
    if max(_shared_seeds(report, arm) for arm in others) < 2:
        common = f"No recipe has two finished seeds in common with `{base.name}`"
        first = f"{common}: this comparison cannot show which recipe is better."
        return [first, *(_against_base(report, arm) for arm in others)]
    ahead = _ahead(report, others)
    rest = [_against_base(report, arm) for arm in others if arm is not ahead]
    if ahead is None:
        first = f"No recipe is significantly better than `{base.name}` in {_listed(report)}."
        return [first, *rest, _trust(report, others)]
    return [_against_base(report, ahead) + _where(report, ahead), *rest, _trust(report, others)]


def quantities(report: BenchReport) -> list[str]:
    """Return the names of the compared metrics: pass@1 and, for k > 1 samples per problem, pass@k."""
    return [f"pass@{k}" for k in sorted({1, report.before.ks[-1]})]


def _ahead(report: BenchReport, others: Sequence[Arm]) -> Arm | None:
    for quantity in quantities(report):
        changes = {arm.name: report.against_base(arm, quantity) for arm in others}
        better = [arm for arm in others if changes[arm.name].low > 0 and _shared_seeds(report, arm) > 1]
        if better:
            return max(better, key=lambda arm: changes[arm.name].value)
    return None


def _against_base(report: BenchReport, arm: Arm) -> str:
    """Return a sentence that says whether a recipe is ahead of the base recipe, behind it, or not significantly
    different from it.

    If the two recipes have only one seed in common, the sentence gives only the difference in each metric.
    """
    few = _shared_seeds(report, arm)
    found = {quantity: report.against_base(arm, quantity) for quantity in quantities(report)}
    base = report.bench.base
    ahead = [q for q, e in found.items() if e.low > 0]
    behind = [q for q, e in found.items() if e.high < 0]
    same = [q for q, e in found.items() if q not in (*ahead, *behind) and not math.isnan(e.value)]
    seeds = f" ({few} of {report.bench.seeds} seeds)" if few < report.bench.seeds else ""
    if few == 1:
        return f"{_of_one_seed(report, arm).removesuffix('.')}{seeds}."
    if not (ahead or behind or same):
        return f"`{arm.name}` and `{base}` have no finished seed in common."
    parts = [f"is ahead of `{base}` in {_by_how_much(found, names)}" for names in [ahead] if names]
    parts += [f"is behind `{base}` in {_by_how_much(found, names)}" for names in [behind] if names]
    parts += [f"is not significantly different from `{base}` in {_at(found, names)}" for names in [same] if names]
    return f"`{arm.name}` {', and '.join(parts)}{seeds}."


def _of_one_seed(report: BenchReport, arm: Arm) -> str:
    found = {quantity: report.against_base(arm, quantity) for quantity in quantities(report)}
    sizes = [f"{points(e.value)} in {name}{_interval(e, ' (', ')')}" for name, e in found.items()]
    return f"In these runs, `{arm.name}` minus `{report.bench.base}` is {' and '.join(sizes)}."


def _against_start(report: BenchReport, arm: Arm) -> str:
    found = {quantity: report.against_before(arm, quantity) for quantity in quantities(report)}
    return f"`{arm.name}` changes {_by(found, list(found))} from before training."


def _where(report: BenchReport, arm: Arm) -> str:
    """Return a sentence about the class of problems with the largest gain in pass@1 over the base recipe; "" if no gain
    is significant."""
    classes = report.by_rate_against_base(arm)
    sure = {name: e for name, e in classes.items() if e.low > 0}
    if not sure:
        return ""
    name = max(sure, key=lambda name: sure[name].value)
    e = sure[name]
    return (
        f" The largest gain in pass@1 is on the {e.problems:,} problems that were {_SOLVED[name]} before training: "
        f"{points(e.value)}{_interval(e, ' (', ')')}."
    )


_SOLVED = {
    "never": "never solved",
    "seldom": "solved in at most an eighth of the samples",
    "often": "solved in an eighth to a half of the samples",
    "mostly": "solved in more than half of the samples",
}


def _by_how_much(found: Mapping[str, Estimate], names: Sequence[str]) -> str:
    """Describe the sizes of differences in words, without signs."""
    sizes = []
    for name in names:
        low, high = sorted(abs(100 * end) for end in (found[name].low, found[name].high))
        sizes.append(f"{name} by {100 * abs(found[name].value):.1f} points (95 % CI {low:.1f} to {high:.1f})")
    return " and ".join(sizes)


def _by(found: Mapping[str, Estimate], names: Sequence[str]) -> str:
    return " and ".join(f"{name} by {points(found[name].value)}{_interval(found[name], ' (', ')')}" for name in names)


def _at(found: Mapping[str, Estimate], names: Sequence[str]) -> str:
    return " and ".join(f"{name} ({points(found[name].value)}{_interval(found[name], ', ', '')})" for name in names)


def _interval(found: Estimate, before: str, after: str) -> str:
    if math.isnan(found.low):
        return ""
    return f"{before}95 % CI {100 * found.low:+.1f} to {100 * found.high:+.1f}{after}"


def _shared_seeds(report: BenchReport, arm: Arm) -> int:
    """Return the number of seeds that both the recipe and the base recipe have finished."""
    return len(set(arm.seeds) & set(report.base.seeds)) if report.base else 0


def _sizes(report: BenchReport) -> str:
    """Return a sentence with the budget and the numbers of seeds and problems."""
    bench, count = report.bench, len(report.before.end.evaluations[0].tallies)
    seeds = f"{bench.seeds} seed{'s' * (bench.seeds > 1)} per recipe"
    return f"{seeds}, {count:,} held-out problems, {bench.budget:,.10g} {UNITS[bench.unit]} per run."


def _few(seeds: int) -> list[str]:
    """Return a sentence about the coverage of intervals that are based on few seeds; an empty list if there are enough
    seeds."""
    if seeds == 1:
        return ["One seed: the intervals include the variation between problems, but not between seeds."]
    if seeds < FEWEST_SEEDS:
        covers = "such an interval has a coverage of 87.5 %"
        return [f"Two seeds are few: where seeds differ most, {covers}."]
    return []


def _trust(report: BenchReport, others: Sequence[Arm]) -> str:
    """Return sentences about the uncertainty of the comparison."""
    bench = report.bench
    compared = len(others) * len(quantities(report))
    fewest = min(seeds for arm in others if (seeds := _shared_seeds(report, arm)) > 1)
    lines = [_sizes(report), "Intervals cover the choice of seeds and of problems.", *_few(fewest)]
    if len(others) > 1:
        lines.append(
            f"These are {compared} comparisons. Without true differences, {0.05 * compared:.2g} of them would exclude "
            "0 by chance; the largest of several differences is overestimated. Confirm a difference with new seeds: "
            f"`--first-seed {bench.compared_seeds.stop}`."
        )
    return " ".join(lines)


def _listed(report: BenchReport) -> str:
    return " or ".join(quantities(report))
