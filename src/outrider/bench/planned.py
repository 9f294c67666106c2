"""A bench before anything runs: its options and recipes, held against each other."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from outrider.bench.proportion import in_proportion
from outrider.bench.spec import Bench, Tune, refuse_too_few_problems, refuse_unlike, settle
from outrider.config import Recipe, load_options

DEFAULT_TOKENS = 1_600_000


def default_folder(recipes: Iterable[str]) -> Path:
    """Where a bench goes unless a folder is named: ``runs/bench-`` and its recipes, of many the first.

    >>> str(default_folder(["grpo", "dr-grpo"])), str(default_folder(["grpo", "dapo", "gspo", "rloo"]))
    ('runs/bench-grpo-dr-grpo', 'runs/bench-grpo-and-3-others')
    """
    first, *others = recipes
    names = [first, *others] if len(others) < 3 else [first, f"and-{len(others)}-others"]
    return Path("runs") / "-".join(["bench", *names])


class Planned(NamedTuple):
    """A bench that can begin.

    Attributes:
        bench: its options.
        recipes: as it runs them.
        notice: which sizes of the evaluation were lowered, "" for none.
    """

    bench: Bench
    recipes: dict[str, Recipe]
    notice: str = ""


def planned(options: Mapping[str, Any], recipes: Mapping[str, Recipe], given: Collection[str] = ()) -> Planned:
    """A bench and its recipes as it runs them.

    Args:
        options: of :class:`Bench`; the recipes' names are added, and as base the first of them.
        recipes: by name, as loaded.
        given: dotted keys of the recipes that the user has set. Without ``points`` among the options, and without
            ``evaluate.problems`` and ``evaluate.n`` here, these are lowered to fit the budget
            (:mod:`outrider.bench.proportion`).

    Raises:
        UserError: an option has a wrong value, the recipes cannot be compared or take no value of those to be tuned,
            or the task holds out too few problems.
    """
    names = list(recipes)
    if options.get("tune") and options["tune"].get("tokens") is None and options.get("tokens") is not None:
        options = {**options, "tune": {**options["tune"], "tokens": options["tokens"]}}
    asked = load_options(Bench, {"recipes": names, "base": names[0], **options}, [], "bench")
    own = {key for key in ("points",) if options.get(key) is not None}
    bench, sized, notice = in_proportion(asked, recipes, own | set(given))
    settled = {name: settle(recipe, bench) for name, recipe in sized.items()}
    refuse_unlike(settled, bench.base)
    _refuse_untunable(bench.tune, settled)
    refuse_too_few_problems(bench, settled[bench.base])
    return Planned(bench, settled, notice)


def _refuse_untunable(tune: Tune | None, recipes: Mapping[str, Recipe]) -> None:
    """Every recipe has the tuned keys and takes all their values: now, not after an hour."""
    if tune is None:
        return
    for name, recipe in recipes.items():
        for values in tune.candidates:
            overrides = [f"{key}={json.dumps(value)}" for key, value in values.items()]
            load_options(Recipe, recipe.resolved(), overrides, name)
