"""The sections with the training curves of all runs: one on tokens and successes, one on the shares of solved, mixed
and unsolved groups, and one on entropy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from outrider.report.comparing.cut_runs import ComparedRun
from outrider.report.comparing.overlay import overlay
from outrider.report.content import Figure, Section, Series, TableBlock
from outrider.report.sections import budget, entropy, groups
from outrider.report.sections.seen import KINDS

_BUDGET = (
    "All runs have about the same number of tokens; their use and return differ. A first success is the first one of "
    "its group: exploration aims at first successes."
)
_GROUPS = (
    "With a group baseline, only mixed groups, with successes and failures, have a signal. The figure counts the "
    "groups of all stages of a step, on the problems that each run sampled. Runs that choose their problems have "
    "groups on different problems."
)
_ENTROPY = "Entropy in nats per sampled token, in training. The section Differences shows which run gained more."


def sections(compared: Sequence[ComparedRun]) -> list[Section]:
    """Return the sections on the token budget, groups of rollouts, and entropy; empty if no training run has token
    counts."""
    trained = [one for one in compared if len(one.tokens_S)]
    made = [_budget(trained), _groups(trained), _entropy(trained)] if trained else []
    return [section for section in made if section.figures]


def _budget(trained: Sequence[ComparedRun]) -> Section:
    tables = {one.name: budget.by_stage(one.run, "tokens") for one in trained}
    what = {
        "successes": "Successes per 1000 tokens",
        "first successes of a group": "First successes of a group per 1000 tokens",
    }
    returns = partial(budget.returns, unit="tokens")
    figures = [
        figure
        for name, title in what.items()
        for figure in overlay(trained, returns, name, name.split()[0], title, "per 1000 tokens")
    ]
    first = next(iter(tables.values()))
    rows = [[name, *row] for name, table in tables.items() for row in table.rows]
    table = TableBlock("stages", first.title, ["run", *first.columns], rows, first.note, first.units)
    return Section("budget", "Where the budget went", _BUDGET, [*_stages(tables), *figures], [table])


def _stages(tables: dict[str, TableBlock]) -> list[Figure]:
    """Plot each run's shares of tokens by exploration stage; return no figure if every run has at most one stage."""
    shares: dict[str, dict[str, float]] = {}
    for name, table in tables.items():
        stage, share = table.columns.index("stage"), table.columns.index("share of tokens")
        shares[name] = {}
        for row in table.rows:
            key, part = str(row[stage]), row[share]
            shares[name][key] = shares[name].get(key, 0.0) + (part if isinstance(part, (int, float)) else 0.0)
    if max(map(len, shares.values())) < 2:
        return []
    bars = [Series(name, list(of), list(of.values())) for name, of in shares.items()]
    title, y = "Share of tokens by stage", "share of tokens"
    return [Figure("by-stage", title, "bars", "stage", y, bars, y_range=(0, 1), percent="y")]


def _groups(trained: Sequence[ComparedRun]) -> Section:
    figures = [
        figure
        for kind in KINDS
        for figure in overlay(
            trained, groups.kinds, kind, kind, f"{kind.capitalize()} groups", "share of groups", percent="y"
        )
    ]
    return Section("groups", "Solved, mixed, unsolved", _GROUPS, figures)


def _entropy(trained: Sequence[ComparedRun]) -> Section:
    figures = overlay(trained, entropy.over_time, "entropy", "entropy", "Entropy along training", "nats per token")
    return Section("entropy", "Entropy", _ENTROPY, figures)
