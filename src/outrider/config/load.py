"""Recipes by name or path, in a setting, with dotted overrides applied."""

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
    """A shipped recipe in one line."""

    name: str
    paper: str
    summary: str


class SettingInfo(NamedTuple):
    """A shipped setting in one line, and the recipe that a comparison recommends there, empty where none does, with the
    values that it was compared with."""

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
    """The recipe of a shipped name or a YAML file, tried in a setting, with the overrides applied.

    A recipe is a method, and may extend another; a setting, also a shipped name or a YAML file, is where it is tried:
    model, task, lengths, budget. A recipe's own values for a setting are under ``settings``, where it may also make a
    setting from another (``released: {extends: paper, …}``) or drop an inherited one (``released: null``). Without
    ``setting`` it is Countdown, but a recipe that names its model has none. :func:`outrider.config.setting.layers` has
    the order of all these, and :func:`outrider.config.merge.assign` the rule by which one is written over another.

    An override is ``key=value``: a dotted key and a YAML value, as in ``explore.0.n=16``; the last one on a key counts.
    In Python it may be a mapping of keys to values, among them components themselves: ``{"explore.0.n": 16}``.
    A ``model`` is taken as the recipe's own: without a setting the run has none, as where the file names its model.

    Raises:
        UserError: no such recipe, setting or key; a value out of range; not YAML. Says where.

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
        file.values.pop("components", None)  # of a run's configuration: where they came from then
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
    """Options of a command: ``data`` from ``source``, then dotted overrides, then parsed. Raises as above."""
    return _override(cls, copy.deepcopy(data), changes_of(overrides), source, [])


def list_recipes() -> list[RecipeInfo]:
    """The shipped recipes, by name."""
    infos = []
    for name in shipped("recipe"):
        values = {key: value for file in chain(name) for key, value in file.values.items()}
        infos.append(RecipeInfo(name, str(values.get("paper", "")), str(values.get("summary", ""))))
    return infos


def list_settings() -> list[SettingInfo]:
    """The shipped settings, by name."""
    infos = []
    for name in shipped("setting"):
        values = read("setting", name).values
        recommended, *compared = str(values.get("recommended") or "").split() or [""]
        infos.append(SettingInfo(name, str(values.get("summary", "")), recommended, (*compared,)))
    return infos


def setting_texts(name_or_path: str, setting: str | None = None) -> list[tuple[str, str]]:
    """The files of the setting that a recipe is tried in: the name of each, and its text with its comments."""
    return [(step.file.where, step.file.text) for step in steps_of(chain(name_or_path), setting) if step.file]


def changes_of(overrides: Sequence[str] | Mapping[str, Any]) -> list[tuple[str, Any, str]]:
    """Key, value, and the whole for error sentences."""
    if isinstance(overrides, Mapping):
        return [(key, value, f"{key}={value!r:.60}") for key, value in overrides.items()]
    return [split_override(override) for override in overrides]


def split_override(override: str) -> tuple[str, Any, str]:
    """``key=value`` as key, parsed value, and the whole as typed, for error sentences. Raises UserError."""
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
