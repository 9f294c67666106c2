"""Plans a bench before any run starts, by checking its options and recipes against each other."""

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
    """Return the default folder of a bench: ``runs/bench-`` followed by the recipes' names, or only by the first name
    if there are many recipes.

    >>> str(default_folder(["grpo", "dr-grpo"])), str(default_folder(["grpo", "dapo", "gspo", "rloo"]))
    ('runs/bench-grpo-dr-grpo', 'runs/bench-grpo-and-3-others')
    """
    first, *others = recipes
    names = [first, *others] if len(others) < 3 else [first, f"and-{len(others)}-others"]
    return Path("runs") / "-".join(["bench", *names])


class Planned(NamedTuple):
    """A bench that is ready to start.

    Attributes:
        bench: options of the bench.
        recipes: recipes by name, with the bench's settings applied.
        notice: sentence about numbers of evaluations, problems or samples that were reduced to fit the budget; "" if
            none was reduced.
    """

    bench: Bench
    recipes: dict[str, Recipe]
    notice: str = ""


def planned(options: Mapping[str, Any], recipes: Mapping[str, Recipe], given: Collection[str] = ()) -> Planned:
    """Return a bench and its recipes, validated and ready to run.

    Args:
        options: options of :class:`Bench`. By default, the option ``recipes`` has the names of all loaded recipes, and
            ``base`` the name of the first one.
        recipes: loaded recipes by name.
        given: dotted recipe keys that the user has set. ``points`` (evaluations per run), ``evaluate.problems`` and
            ``evaluate.n`` may be lowered to fit the budget (:mod:`outrider.bench.proportion`). ``points`` is not
            lowered if it is set in ``options``, and the other two are not lowered if they are in ``given``.

    Raises:
        UserError: an option has an invalid value, the recipes cannot be compared, a recipe rejects a value to be tuned,
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
    """Check that every recipe accepts all values to be tuned, so that an error appears before any run starts."""
    if tune is None:
        return
    for name, recipe in recipes.items():
        for values in tune.candidates:
            overrides = [f"{key}={json.dumps(value)}" for key, value in values.items()]
            load_options(Recipe, recipe.resolved(), overrides, name)
