"""The report's section on where the tokens were spent: by entry of the recipe's sampling plan (``explore``), and by
group (solved, mixed or unsolved). It also shows the successes per token."""

from __future__ import annotations

from outrider.report.content import Figure, Section, Series, TableBlock
from outrider.report.data import SAMPLED, RunData
from outrider.report.sections.seen import KINDS, in_percent, known, one, query, rows, series, shares, split

_TEXT = (
    "Exploration costs tokens and returns successes; the first success of a problem counts most. Save tokens at "
    "stages that take many and return few first successes. Tokens that are not trained on were generated without a "
    "learning signal."
)
_NO_TOKENS = " Token counts are missing, so rollouts are counted instead."


def section(run: RunData) -> Section | None:
    """Return a section on where tokens were spent. It shows the tokens of each entry of the recipe's sampling plan
    (``explore``), and of solved, mixed and unsolved groups. It also shows the tokens of rollouts that were not trained
    on, by reason.

    A group's first success is its successful rollout with the lowest index: later rollouts of the group have higher
    indices. If there are no token counts, the unit of cost is a rollout. The result is None if there are no rollouts.
    """
    unit = unit_of(run)
    if not unit:
        return None
    trained = [_unused(run, unit)] if split(run) == "train" else []
    return Section(
        "budget",
        "Where the budget went",
        _TEXT + (_NO_TOKENS if unit == "rollouts" else ""),
        [*_over_time(run, unit), *returns(run, unit)],
        [by_stage(run, unit), *trained, _splits(run, unit)],
    )


def unit_of(run: RunData) -> str:
    """Return the unit of cost: "tokens", "rollouts" if there are no token counts, or "" if there are no rollouts."""
    total = one(query(run, "SELECT count(*) AS rollouts, count(tokens) AS counted FROM seen"))
    return "tokens" if total["counted"] else "rollouts" if total["rollouts"] else ""


def cost_of(unit: str, which: str = "TRUE") -> str:
    """Return SQL for the cost of the rollouts that meet the condition ``which``."""
    if unit == "rollouts":
        return f"count(*) FILTER ({which})::DOUBLE"
    return f"coalesce(sum(tokens) FILTER ({which}), 0)::DOUBLE"


def by_stage(run: RunData, unit: str) -> TableBlock:
    """Return a table of cost, success rate, and successes per 1000 tokens (or rollouts). Rollouts with
    equal columns ``stage``, ``stream`` and ``context`` share a row of the table."""
    data = query(
        run,
        f"""
        SELECT stage, stream, context, rollouts, cost, cost / nullif(sum(cost) OVER (), 0) AS share,
            success, 1000 * successes / nullif(cost, 0) AS successes_per_1000,
            CASE WHEN success IS NOT NULL THEN 1000 * coalesce(firsts, 0) / nullif(cost, 0) END AS firsts_per_1000,
            trained / nullif(cost, 0) AS trained
        FROM (
            SELECT stage, stream, context, count(*) AS rollouts, {cost_of(unit)} AS cost, avg(success) AS success,
                sum(success)::DOUBLE AS successes, {cost_of(unit, "unused = ''")} AS trained
            FROM spent GROUP BY stage, stream, context
        )
        LEFT JOIN (
            SELECT first_stage AS stage, first_stream AS stream, first_context AS context, count(*) AS firsts
            FROM groups WHERE successes > 0 GROUP BY ALL
        ) USING (stage, stream, context)
        ORDER BY stage, stream, context
        """,
    )
    if unit == "rollouts":
        del data["cost"]  # equals the column `rollouts`
    columns = ["stage", "stream", "context", "rollouts", *(["tokens"] if unit == "tokens" else [])]
    columns += [f"share of {unit}", "success", f"successes per 1000 {unit}", f"first successes per 1000 {unit}"]
    note = "First successes: groups whose first success came from this stage."
    if one(query(run, f"SELECT count(*) AS n FROM spent WHERE NOT {SAMPLED}"))["n"]:
        note += (
            " Rollouts of the stage `greedy` are not samples: this table counts their cost and successes. Statistics "
            "of groups, answers, lengths and entropy exclude them."
        )
    columns.append(f"share of {unit} trained on")
    units = in_percent(f"share of {unit}", "success", f"share of {unit} trained on")
    return TableBlock("budget-stages", "Cost and successes by stage", columns, rows(data), note, units)


def _unused(run: RunData, unit: str) -> TableBlock:
    columns = query(
        run,
        f"""
        SELECT CASE WHEN unused = '' THEN 'trained on' ELSE unused END AS why, count(*) AS rollouts,
            {cost_of(unit)} / nullif(sum({cost_of(unit)}) OVER (), 0) AS share
        FROM spent GROUP BY unused ORDER BY unused <> '', rollouts DESC, why
        """,
    )
    title = "Rollouts trained on, and reasons for exclusion"
    share = f"share of {unit}"
    return TableBlock("budget-unused", title, ["", "rollouts", share], rows(columns), units=in_percent(share))


def _splits(run: RunData, unit: str) -> TableBlock:
    data = run.query(
        """
        SELECT split, count(DISTINCT step) AS steps, count(DISTINCT problem_id) AS problems, count(*) AS rollouts,
            sum(tokens)::DOUBLE AS tokens, avg(tokens) AS length
        FROM rollouts GROUP BY split ORDER BY split <> 'train', split
        """
    )
    columns = ["split", "steps", "problems", "rollouts", "tokens", "tokens per rollout"]
    if unit == "rollouts":
        del data["tokens"], data["length"]
    return TableBlock("budget-splits", "Rollouts by split", columns[: len(data)], rows(data))


def _over_time(run: RunData, unit: str) -> list[Figure]:
    """Plot shares of the cost over steps: by solved, mixed and unsolved groups, and by the entries of the recipe's
    sampling plan (``explore``), if there are several."""
    stages = query(run, f"SELECT upto, stage, {cost_of(unit)} AS cost FROM spent GROUP BY upto, stage ORDER BY upto")
    names = sorted(set(stages["stage"].tolist()))
    figures = []
    if len(names) > 1:
        stack = shares(stages, "stage", "cost", names)
        figures.append(_stack("budget-by-stage", f"Share of {unit} by stage", unit, stack))
    kinds = query(
        run,
        f"SELECT upto, kind, sum({_size(unit)})::DOUBLE AS cost FROM groups WHERE kind IS NOT NULL "
        "GROUP BY upto, kind ORDER BY upto",
    )
    if stack := shares(kinds, "kind", "cost", KINDS):
        title = f"Share of {unit} by kind of group"
        note = "With a group baseline, only mixed groups have non-zero advantages."
        figures.append(_stack("budget-by-kind", title, unit, stack, note))
    return figures


def _stack(id: str, title: str, unit: str, stack: list[Series], note: str = "") -> Figure:
    return Figure(id, title, "stack", "step", f"share of {unit}", stack, y_range=(0.0, 1.0), note=note, percent="y")


def returns(run: RunData, unit: str) -> list[Figure]:
    """Plot the numbers of successes, and of groups with a success, per 1000 tokens over training. If there are no token
    counts, plot them per 1000 rollouts."""
    columns = query(
        run,
        f"""
        SELECT upto, 1000 * sum(successes)::DOUBLE / nullif(sum({_size(unit)}), 0) AS successes,
            1000 * count(*) FILTER (successes > 0)::DOUBLE / nullif(sum({_size(unit)}), 0) AS firsts
        FROM groups WHERE kind IS NOT NULL GROUP BY upto ORDER BY upto
        """,
    )
    if not known(columns["successes"]):
        return []
    lines = [series(name, columns["upto"], columns[key]) for name, key in _RETURNS.items()]
    return [Figure("budget-returns", f"Successes per 1000 {unit}", "line", "step", f"per 1000 {unit}", lines)]


_RETURNS = {"successes": "successes", "first successes of a group": "firsts"}


def _size(unit: str) -> str:
    """Return SQL for the cost of a group."""
    return "tokens" if unit == "tokens" else "n"
