"""Defines the order in which the files of a setting (model, task and budget) and of a recipe are applied. If several
files set the same key, the last value counts."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, NamedTuple

from outrider.config.merge import Origin
from outrider.config.shipped import Written, is_file, mapping, read, shipped
from outrider.errors import UserError, nearest

DEFAULT = "countdown"
_ABOUT = frozenset({"summary", "recommended"})  # keys that only describe a setting
_METHOD = {"name", "paper", "settings", "explore", "credit", "objective", "reward"}  # keys that only a recipe has


class Layer(NamedTuple):
    """A mapping from dotted keys to values, and the file in which the values were written."""

    values: dict[str, Any]
    origin: Origin


class Step(NamedTuple):
    """One setting in the list that :func:`steps_of` returns. Each setting in the list extends the setting before it.

    Attributes:
        file: file of the setting; None if only a recipe defines the setting.
        by_recipe: for each recipe file, its values under ``settings.<name>``.
    """

    name: str
    file: Written | None
    by_recipe: dict[str, dict[str, Any]]


def steps_of(recipes: Sequence[Written], setting: str | None) -> list[Step]:
    """Return the chosen setting, preceded by the settings that it extends. The list is empty if there is no setting.

    A setting is a file that is shipped with Outrider, a file of the user, or a mapping under ``settings`` in a recipe.
    The default is ``countdown``; a recipe that contains ``model`` has no default setting.

    Raises:
        UserError: the setting does not exist or extends itself, or the recipe contains ``model`` and the setting is a
            file.
    """
    models = [(file.where, file.values["model"]) for file in recipes if "model" in file.values]
    own = _of_recipes(recipes, whole=bool(models))
    steps: list[Step] = []
    name = DEFAULT if setting is None and not models else setting
    while name is not None:
        if name in [step.name for step in steps]:
            raise UserError(f"{recipes[-1].where}: the setting {name!r} extends itself")
        file = _file(name)
        if file is None and name not in own:
            hint = nearest(name, {*shipped("setting"), *own})
            if name == setting:  # the command named the setting, not a file
                raise UserError(f"setting {name}: no shipped setting, nor one of {recipes[-1].where} ({hint})")
            raise UserError(f"{recipes[-1].where}: there is no setting {name!r} ({hint})")
        if file is not None and models:
            where, model = models[-1]
            raise UserError(
                f"{where}: it names its model ({model}), so it is a whole run and takes no setting {setting!r}"
            )
        steps.insert(0, Step(name, file, own.get(name, {})))
        extends = [values["extends"] for values in steps[0].by_recipe.values() if "extends" in values]
        name = extends[-1] if extends else file.extends if file else None
    return steps


def layers(recipes: Sequence[Written], steps: Sequence[Step]) -> list[Layer]:
    """Return the values of all files as layers, in order; each layer overwrites the earlier layers.

    The files of the settings come first, then the recipes. In each of the two parts, a file comes before the file that
    extends it. Each recipe has several layers: first the recipe's values outside ``settings``, then, for each setting
    in ``steps``, the recipe's values under ``settings.<name>``.
    """
    result = [_layer(step.file.values, _ABOUT, Origin(step.file.where)) for step in steps if step.file]
    for file in recipes:
        result.append(_layer(file.values, {"settings"}, Origin(file.where)))
        for step in steps:
            place = Origin(file.where, f"settings.{step.name}.")
            result.append(_layer(step.by_recipe.get(file.where, {}), {"extends"}, place))
    return result


def _file(name: str) -> Written | None:
    """Return a setting's file, or None for a setting without a file.

    Raises:
        UserError: the file has a key that belongs in a recipe.
    """
    if not is_file(name) and name not in shipped("setting"):
        return None
    file = read("setting", name)
    for key in file.values:
        if key.split(".")[0] in _METHOD:
            raise UserError(f"{file.where}: {key} belongs in a recipe, not in a setting")
    return file


def _layer(values: dict[str, Any], without: Set[str], origin: Origin) -> Layer:
    return Layer({key: value for key, value in values.items() if key not in without}, origin)


def _of_recipes(recipes: Sequence[Written], whole: bool) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the recipes' values under ``settings``, keyed by setting and by recipe file. If a recipe sets ``frontier``
    to null, what earlier recipes in ``recipes`` define for ``frontier`` is discarded.

    Raises:
        UserError: a setting is neither shipped nor extends another setting, so its values would never be used.
    """
    result: dict[str, dict[str, dict[str, Any]]] = {}
    for file in recipes:
        for name, values in mapping(file.values.get("settings") or {}, file.where, "settings").items():
            if values is None:
                result.pop(name, None)
                continue
            place = f"settings.{name}"
            result.setdefault(name, {})[file.where] = own = mapping(values, file.where, place)
            if not isinstance(own.get("extends", ""), str):
                raise UserError(f"{file.where}: {place}.extends is the name of a setting, not {own['extends']!r}")
            if not (whole or name in shipped("setting") or any("extends" in s for s in result[name].values())):
                hint = nearest(name, shipped("setting"))
                raise UserError(f"{file.where}: {place} is no shipped setting ({hint}), so say which one it extends")
    return result
