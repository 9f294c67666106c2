"""Loads a recipe by name or path, and combines it with a setting (model, task and budget) and with overrides."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from outrider.config.merge import Origin, Origins, assign
from outrider.config.recipe import Recipe
from outrider.config.sentences import Model, parse
from outrider.config.setting import layers, steps_of
from outrider.config.shipped import chain, read, shipped
from outrider.config.yaml_data import read_yaml
from outrider.errors import UserError


class RecipeInfo(NamedTuple):
    """The summary of a shipped recipe, shown in lists of recipes."""

    name: str
    paper: str
    summary: str


class SettingInfo(NamedTuple):
    """The summary of a shipped setting (model, task and budget).

    ``recommended`` is the name of the recipe with the best benchmark results in this setting, or "" if there is no
    recommendation. ``values`` are the options of this recipe in the benchmark, such as ``learn.minibatches=4``.
    """

    name: str
    summary: str
    recommended: str
    values: tuple[str, ...] = ()


def load_recipe(
    name_or_path: str,
    overrides: Sequence[str] | Mapping[str, Any] = (),
    setting: str | None = None,
    model: str | None = None,
) -> Recipe:
    """Load a recipe (a shipped name or a YAML file), combine it with a setting, and apply the overrides.

    A recipe is a method, and may extend another recipe. A setting (a shipped name or a YAML file) defines the model,
    the task, the response length and the budget. In the section ``settings``, a recipe can define its own values for
    each setting. There, ``new: {extends: paper, …}`` defines a setting ``new``, which starts from the values of the
    setting ``paper``. In the same section, ``paper: null`` removes the values for the setting ``paper`` that the recipe
    would inherit from the recipe it extends. The default setting is ``countdown``; a recipe that contains ``model`` has
    no default setting. Settings, recipes and overrides overwrite one another in the order of
    :func:`outrider.config.setting.layers` and by the rules of :func:`outrider.config.merge.assign`.

    An override is ``key=value``, with a dotted key and a YAML value, as in ``explore.0.n=16``. If several overrides
    have the same key, the last one applies. In Python, overrides may also be a mapping from keys to values or
    components, such as ``{"explore.0.n": 16}``. The argument ``model`` sets the model. With ``model`` and without
    ``setting``, the default setting is not used. The override ``model=…``, in contrast, keeps the default setting.

    Raises:
        UserError: the recipe, setting or key does not exist, a value is out of range, or a file is not YAML. The
            message names the place.

    >>> recipe = load_recipe("grpo", ["explore.0.n=16", "learn.lr=2e-4"])
    >>> recipe.explore, recipe.learn.lr, recipe.model
    ([Uniform(n=16)], 0.0002, 'base:countdown')
    >>> load_recipe("grpo", setting="gsm8k-0.5b").model
    'Qwen/Qwen2.5-0.5B-Instruct'
    """
    changes = changes_of(overrides)
    recipes = chain(name_or_path)
    *bases, own = recipes
    for file in bases:
        file.values.pop("name", None)
    for file in recipes:
        file.values.pop("components", None)  # origins of components, which a run's configuration records
    if any(key.partition(".")[0] == "components" for key, _, _ in changes):
        raise UserError("components is recorded by the run, and cannot be set")
    if model is not None and setting is None:
        own.values["model"] = model
    elif model is not None:
        changes.append(("model", model, f"model={model}"))
    data: dict[str, Any] = {"name": own.name}
    steps = steps_of(recipes, setting)
    origins = [
        (path, origin) for values, origin in layers(recipes, steps) for key, value in values.items()
        for path in assign(data, key, value, origin)
    ]  # fmt: skip
    if steps:
        data["from_setting"] = steps[-1].name
    where = own.where if setting is None else f"{own.where} in {setting}"
    return _override(Recipe, data, changes, where, origins)


def load_options(
    cls: type[Model], data: dict[str, Any], overrides: Sequence[str] | Mapping[str, Any], source: str
) -> Model:
    """Apply overrides (see :func:`load_recipe`) to ``data``, and parse it to an object of the class ``cls``. Error
    messages name ``source`` as the data's file."""
    return _override(cls, copy.deepcopy(data), changes_of(overrides), source, [])


def list_recipes() -> list[RecipeInfo]:
    """Return the shipped recipes, sorted by name."""
    infos = []
    for name in shipped("recipe"):
        values = {key: value for file in chain(name) for key, value in file.values.items()}
        infos.append(RecipeInfo(name, str(values.get("paper", "")), str(values.get("summary", ""))))
    return infos


def list_settings() -> list[SettingInfo]:
    """Return the shipped settings, sorted by name."""
    infos = []
    for name in shipped("setting"):
        values = read("setting", name).values
        recommended, *compared = str(values.get("recommended") or "").split() or [""]
        infos.append(SettingInfo(name, str(values.get("summary", "")), recommended, (*compared,)))
    return infos


def setting_texts(name_or_path: str, setting: str | None = None) -> list[tuple[str, str]]:
    """Return the name and the text, including comments, of each file that makes up a recipe's setting."""
    return [(step.file.where, step.file.text) for step in steps_of(chain(name_or_path), setting) if step.file]


def changes_of(overrides: Sequence[str] | Mapping[str, Any]) -> list[tuple[str, Any, str]]:
    """Return the key and the value of each override, and its full text for error messages."""
    if isinstance(overrides, Mapping):
        return [(key, value, f"{key}={value!r:.60}") for key, value in overrides.items()]
    return [split_override(override) for override in overrides]


def split_override(override: str) -> tuple[str, Any, str]:
    """Return the key and the parsed value of ``key=value``, and the full text for error messages. Raises UserError if
    the text is invalid."""
    key, equals, value = override.partition("=")
    if not equals or not all(key.split(".")):
        raise UserError(f"an override is written key=value, as in train.steps=200, not {override!r}")
    if key in ("profile", "setting"):
        chosen = "paper" if value == "null" else value
        raise UserError(f"{override}: profile is now called setting; use --setting {chosen} (setting= in Python)")
    return key, read_yaml(value, override), override


def _override(
    cls: type[Model], data: dict[str, Any], changes: Sequence[tuple[str, Any, str]], file: str, origins: Origins
) -> Model:
    for key, value, typed in changes:
        origin = Origin(typed, typed=True)
        origins += [(path, origin) for path in assign(data, key, value, origin)]
    return parse(cls, data, file, origins)
