"""The options of a bench: recipes, seeds, budget per run, and tuning. This module does not import torch."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from outrider.config import Recipe, load_options, load_recipe, read_yaml
from outrider.config.load import changes_of
from outrider.config.renamed import with_present_keys
from outrider.config.shipped import chain
from outrider.errors import UserError, nearest
from outrider.options import Options

FIRST_TUNING_SEED = 1000  # not one of the compared seeds, since tuning on the same seeds would bias the comparison

_OWN = {  # recipe keys that a bench sets itself, and the option to use instead (command line and Python)
    "seed": "--seeds and --first-seed (seeds=, first_seed=)",
    "train.tokens": "--tokens (tokens=)",
    "train.steps": "--steps (steps=)",
    "train.seconds": "--seconds (seconds=)",
    "train.evaluate_at": "--points (points=)",
    "train.evaluate_every": "--points (points=)",
    "train.ranks": "--at-once (at_once=)",
    "evaluate.before": "--points (points=)",
    "evaluate.after": "--points (points=)",
    "evaluate.skip": "--tune-problems or --final-test-skip (tune=, final_test=)",
}


class Tune(Options):
    """Hyperparameters to tune for each recipe before the comparison. All recipes have the same tuning budget. Tuning
    and comparison use different seeds and different held-out problems."""

    values: dict[str, list[Any]] = Field(
        min_length=1,
        description=(
            "mapping from each hyperparameter's dotted recipe key, such as learn.lr, to the list of values to try; "
            "every combination of values is tested"
        ),
    )
    tokens: int = Field(ge=1, description="length of each tuning run, in generated tokens")
    seeds: int = Field(
        1,
        ge=1,
        description=(
            "number of tuning runs, each with a different seed, for every recipe and every combination of "
            "hyperparameter values"
        ),
    )
    problems: int = Field(
        200,
        ge=1,
        description=(
            "number of held-out problems on which tuning runs are evaluated; the comparison of recipes uses other "
            "problems"
        ),
    )
    by: Literal["pass@1", "pass@n", "mean"] = Field(
        "pass@1",
        description=(
            "evaluation metric for selecting the best hyperparameter values: pass@1, pass@n (n samples per problem), "
            "or the mean of both (mean)"
        ),
    )

    @model_validator(mode="before")
    @classmethod
    def _of_one_key(cls, data: Any) -> Any:
        """Convert options from older Outrider versions, in which only one hyperparameter could be tuned."""
        if isinstance(data, dict) and "key" in data:
            rest = {name: value for name, value in data.items() if name != "key"}
            return rest | {"values": {data["key"]: data.get("values")}}
        return data

    @model_validator(mode="after")
    def _something_to_choose(self) -> Tune:
        if len(self.candidates) < 2:
            raise ValueError("there is nothing to tune: give at least one key two or more values")
        return self

    @property
    def candidates(self) -> list[dict[str, Any]]:
        """All combinations of tuned values, each as a mapping from key to value; the last key varies fastest."""
        return [dict(zip(self.values, each, strict=True)) for each in itertools.product(*self.values.values())]


class FinalTest(Options):
    """Held-out problems on which each run's last policy is measured once. The bench uses these problems for nothing
    else."""

    problems: int = Field(ge=1, description="number of problems in the final test set")
    skip: int | None = Field(
        None,
        ge=1,
        description=(
            "number of held-out problems to skip before the final test set; null: skip the held-out problems that are "
            "used for tuning and for the comparison"
        ),
    )


class Bench(Options):
    """A comparison of recipes, with one run per recipe and seed, and the same budget for each run."""

    old_keys: ClassVar[Mapping[str, str]] = {"untouched": "final_test"}

    recipes: list[str] = Field(
        min_length=1, description="names of the recipes to compare, in the order of the results table"
    )
    base: str = Field(
        description="name of the baseline recipe; every other recipe's results are compared with the baseline's results"
    )
    seeds: int = Field(
        5, ge=1, le=FIRST_TUNING_SEED, description="number of random seeds; each recipe is trained once with each seed"
    )
    first_seed: int = Field(
        0,
        ge=0,
        lt=FIRST_TUNING_SEED,
        description="smallest random seed; each recipe's runs use consecutive seeds, starting with this seed",
    )
    tokens: int | None = Field(
        None,
        ge=1,
        description="length of each run in generated tokens; null: the length is set by steps or seconds",
    )
    steps: int | None = Field(
        None,
        ge=1,
        description="length of each run in training steps; null: the length is set by tokens or seconds",
    )
    seconds: float | None = Field(
        None,
        gt=0,
        description="length of each run in seconds of training time; null: the length is set by tokens or steps",
    )
    points: int = Field(
        4,
        ge=1,
        description=(
            "number of evaluations per run, evenly spaced over the run's budget; the last evaluation is at the end of "
            "the run"
        ),
    )
    tune: Tune | None = Field(
        None,
        description="settings of a hyperparameter search for every recipe, run before the comparison; null: no search",
    )
    final_test: FinalTest | None = Field(
        None,
        description=(
            "held-out problems on which each run's final policy is evaluated once, after the comparison; null: no "
            "final test"
        ),
    )

    @model_validator(mode="after")
    def _one_budget(self) -> Bench:
        given = [unit for unit, limit in self._limits().items() if limit is not None]
        if len(given) != 1:
            raise ValueError(
                f"the budget must be one of tokens, steps and seconds, not {' and '.join(given) or 'none'}"
            )
        if self.base not in self.recipes:
            raise ValueError(
                f"base is {self.base!r}, which is not among the compared recipes ({nearest(self.base, self.recipes)})"
            )
        if self.compared_seeds.stop > FIRST_TUNING_SEED:
            raise ValueError(
                f"first_seed {self.first_seed} and {self.seeds} seeds exceed {FIRST_TUNING_SEED - 1}; seeds from "
                f"{FIRST_TUNING_SEED} on are reserved for tuning"
            )
        return self

    @property
    def compared_seeds(self) -> range:
        """Seeds of each recipe's runs in the comparison; tuning runs have other seeds."""
        return range(self.first_seed, self.first_seed + self.seeds)

    @property
    def unit(self) -> str:
        return next(unit for unit, limit in self._limits().items() if limit is not None)

    @property
    def budget(self) -> float:
        return next(limit for limit in self._limits().values() if limit is not None)

    @property
    def shares(self) -> list[float]:
        """Shares of the budget at which a run is evaluated; the last share is 1."""
        return [point / self.points for point in range(1, self.points + 1)]

    def looked_at(self, compared: int) -> int:
        """Return the number of held-out problems used before the final test: the problems for comparing recipes
        (``compared``), plus the problems for tuning."""
        return compared + (self.tune.problems if self.tune else 0)

    def final_test_from(self, compared: int) -> int:
        """Return the index of the first held-out problem of the final test set."""
        asked = self.final_test.skip if self.final_test else None
        return self.looked_at(compared) if asked is None else asked

    def _limits(self) -> dict[str, float | None]:
        return {"tokens": self.tokens, "steps": self.steps, "seconds": self.seconds}


def bench_of(data: Mapping[str, Any]) -> Bench:
    """Read a bench from the data of its ``bench.yaml`` or ``results.json``, which may be from an older Outrider
    version.

    >>> bench_of({"recipes": ["grpo"], "base": "grpo", "tokens": 1, "untouched": {"problems": 3}}).final_test
    FinalTest(problems=3, skip=None)
    """
    return Bench.model_validate(with_present_keys(Bench, dict(data))[0])


def given_keys(names: Sequence[str | Recipe], overrides: Sequence[str] | Mapping[str, Any]) -> set[str]:
    """Return the dotted keys that the user has set in overrides or recipe files. If a recipe is already loaded, all its
    keys count as set.

    >>> sorted(given_keys(["grpo"], ["evaluate={n: 4, problems: 9}", "train.problems=8"]) - given_keys(["grpo"], []))
    ['evaluate.n', 'evaluate.problems', 'train.problems']
    """
    written = [(key, value) for key, value, _ in changes_of(overrides)]
    for name in names:
        loaded = [name.resolved()] if isinstance(name, Recipe) else [file.values for file in chain(name)]
        written += [item for values in loaded for item in values.items()]
    return {each for key, value in written for each in _keys(key, value)}


def load_recipes(
    names: Sequence[str | Recipe], overrides: Sequence[str] | Mapping[str, Any], setting: str | None = None
) -> dict[str, Recipe]:
    """Load recipes with the same setting (model, task and budget) and the same overrides. Return them by name.

    Args:
        names: names of shipped recipes, recipe files, or :class:`Recipe` objects.

    Raises:
        UserError: a recipe cannot be read, or two recipes have the same name. Also raised if an override sets a key
            that the bench sets, or if ``setting`` is given together with a :class:`Recipe` object.
    """
    for key, value, override in changes_of(overrides):
        for written in _keys(key, value):
            if written in _OWN:
                raise UserError(f"{override}: the bench sets {written}; use {_OWN[written]}")
    recipes: dict[str, Recipe] = {}
    for name in names:
        recipe = load_recipe(name, overrides, setting) if isinstance(name, str) else _changed(name, overrides, setting)
        if recipe.name in recipes:
            raise UserError(f"two recipes have the name {recipe.name!r}; set another `name` in one of the files")
        if not all(c.isalnum() or c in "-_.+" for c in recipe.name) or recipe.name.startswith("."):
            where = name if isinstance(name, str) else "a recipe"
            raise UserError(f"{where}: its name, {recipe.name!r}, is not a valid folder name")
        recipes[recipe.name] = recipe
    return recipes


def _changed(recipe: Recipe, overrides: Sequence[str] | Mapping[str, Any], setting: str | None) -> Recipe:
    if setting is not None:
        raise UserError(f"setting {setting}: recipe {recipe.name} is already loaded; pass the setting to load_recipe")
    return load_options(Recipe, recipe.resolved(), overrides, recipe.name)


def settle(recipe: Recipe, bench: Bench) -> Recipe:
    """Return the recipe with the settings of the bench: its budget, its evaluation points, and a single process."""
    data = recipe.resolved()
    data["train"] |= {
        "tokens": bench.tokens,
        "steps": bench.steps,
        "seconds": bench.seconds,
        "evaluate_at": bench.shares[:-1],
        "evaluate_every": 0,
        "ranks": 1,
        "trackers": [],
    }
    data["evaluate"] |= {"before": False, "after": True, "skip": 0}
    return Recipe.model_validate(data)


def refuse_unlike(recipes: Mapping[str, Recipe], base: str) -> None:
    """Raise an error if recipes differ in model or evaluation settings, since their results would not be comparable.

    Raises:
        UserError: a recipe differs from the base recipe; the message names the first difference.
    """
    wanted = _measured_by(recipes[base])
    for name, recipe in recipes.items():
        for key, value in _measured_by(recipe).items():
            if value != wanted[key]:
                raise UserError(
                    f"{name} has other evaluation settings than {base}: {key} is {json.dumps(value)}, not "
                    f"{json.dumps(wanted[key])}; set it for all recipes, such as {key}={json.dumps(wanted[key])}"
                )


def refuse_too_few_problems(bench: Bench, recipe: Recipe) -> None:
    """Check before the first run that the task has enough held-out problems. Otherwise the bench could fail hours
    later.

    Raises:
        UserError: the task has too few held-out problems, or the final test set overlaps the bench's other problems.
    """
    compared = recipe.evaluate.problems
    looked_at = wanted = bench.looked_at(compared)
    apart = f" and {looked_at - compared} others for tuning (--tune-problems)" if bench.tune else ""
    if (last := bench.final_test) is not None:
        first = bench.final_test_from(compared)
        if first < looked_at:
            raise UserError(
                f"--final-test-skip {first} is too small: this bench itself evaluates on {looked_at} problems"
            )
        wanted = first + last.problems
        apart += f" and {last.problems} for the final test set after the first {first} (--final-test)"
    try:
        held = len(recipe.task.heldout(wanted))
    finally:
        recipe.task.close()
    if held < wanted:
        raise UserError(
            f"task {recipe.task.name!r} has {held} held-out problems, but {compared} are requested "
            f"(evaluate.problems){apart}"
        )


def parse_tuned(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Parse one or more ``--tune`` arguments, such as ``learn.lr=5e-5,1e-4,2e-4``, into a mapping from keys to values.

    >>> parse_tuned(["learn.lr=5e-5,1e-4", "learn.minibatches=1,4"])
    {'learn.lr': [5e-05, 0.0001], 'learn.minibatches': [1, 4]}
    """
    tuned: dict[str, list[Any]] = {}
    for text in texts:
        key, values = _parse_tuned(text)
        if key in tuned:
            raise UserError(f"--tune {text}: {key} is given twice")
        tuned[key] = values
    return tuned


def _parse_tuned(text: str) -> tuple[str, list[Any]]:
    key, equals, values = text.partition("=")
    if not equals or not all(key.split(".")):
        raise UserError(f"--tune must be key=value,value, such as learn.lr=5e-5,1e-4, not {text!r}")
    if key in _OWN:
        raise UserError(f"--tune {text}: the bench sets {key}")
    return key, [read_yaml(value, f"--tune {text}") for value in values.split(",")]


def _keys(key: str, value: Any) -> Iterator[str]:
    """Yield the dotted keys that an override sets: the keys in ``value`` if it is a mapping, otherwise ``key``."""
    if not isinstance(value, dict):
        yield key
        return
    for name, part in value.items():
        yield from _keys(f"{key}.{name}", part)


def _measured_by(recipe: Recipe) -> dict[str, Any]:
    data = recipe.resolved()
    [(task, options)] = data["task"].items()
    sampled = {f"sample.{key}": data["sample"][key] for key in ("temperature", "top_p", "top_k", "max_tokens")}
    evaluated = {f"evaluate.{key}": value for key, value in data["evaluate"].items()}
    return {
        "model": data["model"],
        "task": {task: {key: value for key, value in options.items() if key != "seed"}},
        **sampled,
        **evaluated,
    }
