"""Builds a terminal table of the advantages that a recipe assigns to a small example group."""

from __future__ import annotations

import numpy as np
from rich import box
from rich.table import Table

from outrider.arrays import Floats
from outrider.config import Recipe
from outrider.credit.explain import GroupShape, explain, worked_group
from outrider.explore import Branch, EntropyBranch, Greedy


def credit_table(recipe: Recipe, stream: str) -> Table:
    """Return a table that shows how the components in the recipe's list ``credit.<stream>`` turn rewards into
    advantages: one row per rollout of an example group, one column per component."""
    chain, reward = recipe.credit[stream], recipe.reward
    step = max(getattr(link, "first_step", 1) for link in chain)  # a component may start at a later step
    worked = worked_group(_shape(recipe, stream), reward.correct, reward.incorrect, recipe.sample.max_tokens)
    members = worked.members
    columns = {"tokens": [str(n) for n in members.tokens_G], "log p": [_range(lp) for lp in members.logprobs_GT]}
    columns["reward"] = [_range(np.array([r])) for r in members.rewards_G]
    names = [name for link in recipe.resolved()["credit"][stream] for name in link]
    for name, after in zip(names, explain(chain, members, step), strict=True):
        values = list(after.rewards_G[:, None]) if after.advantages_GT is None else after.advantages_GT
        columns[name] = [_range(value) for value in values]
    title = f"credit.{stream}, on a worked group" + (f" at step {step}" if step > 1 else "")
    table = Table("member", title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for name in columns:
        table.add_column(name, justify="right")
    for cells in zip(worked.names, *columns.values(), strict=True):
        table.add_row(*cells)
    return table


def _shape(recipe: Recipe, stream: str) -> GroupShape:
    if stream != "main":
        return "siblings"
    branches = (stage for stage in recipe.explore if isinstance(stage, (Branch, EntropyBranch)))
    if any(stage.stream == "main" for stage in branches):
        return "tree"
    return "greedy" if any(isinstance(stage, Greedy) for stage in recipe.explore) else "roots"


def _range(values: Floats) -> str:
    """Format one value per token of a response, such as the tokens' advantages.

    Equal values are written once, as in ``0.75``. If the first and the last value are the minimum and the maximum (in
    any order), both are written as in ``0.00 → 1.17``. Otherwise the minimum and the maximum are written as in
    ``0.24 to 1.17``.
    """
    if np.isnan(values).any():
        return "-"
    first, last, low, high = (
        f"{v:.2f}".replace("-0.00", "0.00") for v in (*values[[0, -1]], values.min(), values.max())
    )
    if low == high:
        return low
    return f"{first} → {last}" if {first, last} == {low, high} else f"{low} to {high}"
