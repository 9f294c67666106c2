"""The section on tuning: the hyperparameter values tried for each recipe, and the chosen values."""

from __future__ import annotations

from outrider.bench.blocks import BlockCell, block
from outrider.bench.report import BenchReport
from outrider.bench.spec import Tune
from outrider.bench.tuning import Choice
from outrider.report.content import Section, Unit

CRITERIA = {
    "pass@1": "pass@1",
    "pass@n": "pass@n (with all n samples)",
    "mean": "mean of pass@1 and pass@n (with all n samples)",
}


def tuning(report: BenchReport) -> Section | None:
    """Return a table with one row per recipe and combination of values; None if the bench does not tune."""
    tune = report.bench.tune
    if tune is None:
        return None
    tried = [t for choice in report.choices.values() for t in choice.tried]
    names = max((list(t.scores) for t in tried), key=len, default=[])
    scores = ["criterion", *(name for name in names if name != "criterion")]
    rows: list[list[BlockCell]] = []
    for recipe, choice in report.choices.items():
        for place, t in enumerate(choice.tried):
            values = [f"{v:g}" if isinstance(v, float) else str(v) for v in t.values.values()]
            rows.append([recipe, *values, *(t.scores.get(name) for name in scores), _mark(tune, choice, place)])
    units: dict[str, Unit] = {name: "percent" for name in scores if name != "entropy"}
    table = block("tuning", "Tried values", ["recipe", *tune.values, *scores, "result"], rows, units=units)
    return Section("tuning", "Tuning", _text(tune), [], [table])


def _mark(tune: Tune, choice: Choice, place: int) -> str:
    if place != choice.chosen:
        failed = choice.tried[place].failed
        return f"{failed} failed" if failed else ""
    if not choice.at_edge:
        return "chosen"
    which = f" of {' and '.join(choice.at_edge)}" if len(tune.values) > 1 else ""
    return f"chosen, at the edge of the tried values{which}"


def _text(tune: Tune) -> str:
    seeds = f"{tune.seeds} seed{'s' if tune.seeds > 1 else ''}"
    keys = " with ".join(f"`{key}`" for key in tune.values)
    return (
        f"Tuned: {keys}, with the same budget for each recipe: {seeds} of its own and {tune.tokens:,} generated "
        f"tokens per value, evaluated on {tune.problems} held-out problems that the comparison does not use. We pick "
        f"the first value whose {CRITERIA[tune.by]} is within one standard error of the best, paired by problem."
    )
