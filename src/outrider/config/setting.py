"""What a recipe and a setting say together: the layers of a configuration, the last of which counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from outrider.config.merge import Origin
from outrider.config.shipped import Written, is_file, mapping, read, shipped
from outrider.errors import UserError, nearest

DEFAULT = "countdown"
_METHOD = {"name", "paper", "settings", "explore", "credit", "objective", "reward"}  # recipes lie over their setting


class Layer(NamedTuple):
    """Values by dotted key, and where they were written."""

    values: dict[str, Any]
    origin: Origin


class Step(NamedTuple):
    """One of the settings that a run is in: its name, its file, and by recipe what that one says of it."""

    name: str
    file: Written | None
    said: dict[str, dict[str, Any]]


def steps_of(recipes: Sequence[Written], asked: str | None) -> list[Step]:
    """The setting that is asked for, after those that it extends; none for a run without a setting.

    A setting is a shipped name, a file, or a name under which a recipe says what it extends. Without one that is asked
    for it is Countdown; but a recipe that names its model is a whole run already.

    Raises:
        UserError: no such setting, or one with a file for a recipe that names its model.
    """
    models = [(file.where, file.values["model"]) for file in recipes if "model" in file.values]
    said = _said(recipes, whole=bool(models))
    steps: list[Step] = []
    name = DEFAULT if asked is None and not models else asked
    while name is not None:
        if name in [step.name for step in steps]:
            raise UserError(f"{recipes[-1].where}: the setting {name!r} extends itself")
        file = _file(name)
        if file is None and name not in said:
            hint = nearest(name, {*shipped("setting"), *said})
            raise UserError(f"{recipes[-1].where}: there is no setting {name!r} ({hint})")
        if file is not None and models:
            where, model = models[-1]
            raise UserError(
                f"{where}: it names its model ({model}), so it is a whole run and takes no setting {asked!r}"
            )
        steps.insert(0, Step(name, file, said.get(name, {})))
        extends = [values["extends"] for values in steps[0].said.values() if "extends" in values]
        name = extends[-1] if extends else file.extends if file else None
    return steps


def layers(recipes: Sequence[Written], steps: Sequence[Step]) -> list[Layer]:
    """What is written over what, the last of which counts.

    First comes the setting's file, after that which it extends. Then each recipe, the one that is extended before the
    one that extends it: what it says, and after that what it says of this setting under ``settings``. So whatever a
    recipe says holds in every setting, and nothing that a file says is replaced by what it extends.
    """
    found = [_layer(step.file.values, "summary", Origin(step.file.where)) for step in steps if step.file]
    for file in recipes:
        found.append(_layer(file.values, "settings", Origin(file.where)))
        for step in steps:
            place = Origin(file.where, f"settings.{step.name}.")
            found.append(_layer(step.said.get(file.where, {}), "extends", place))
    return found


def _file(name: str) -> Written | None:
    """A setting's file, if it has one.

    Raises:
        UserError: it says something of a method: recipes lie over it, so it would be lost.
    """
    if not is_file(name) and name not in shipped("setting"):
        return None
    file = read("setting", name)
    for key in file.values:
        if key.split(".")[0] in _METHOD:
            raise UserError(f"{file.where}: {key} is what a recipe says; a setting is where it is tried")
    return file


def _layer(values: dict[str, Any], without: str, origin: Origin) -> Layer:
    return Layer({key: value for key, value in values.items() if key != without}, origin)


def _said(recipes: Sequence[Written], whole: bool) -> dict[str, dict[str, dict[str, Any]]]:
    """By setting and recipe, what the recipes say of settings; null leaves what is inherited.

    Raises:
        UserError: a name that is not shipped and does not say what it extends: its values would never be used.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for file in recipes:
        for name, values in mapping(file.values.get("settings") or {}, file.where, "settings").items():
            if values is None:
                found.pop(name, None)
                continue
            place = f"settings.{name}"
            found.setdefault(name, {})[file.where] = said = mapping(values, file.where, place)
            if not isinstance(said.get("extends", ""), str):
                raise UserError(f"{file.where}: {place}.extends is the name of a setting, not {said['extends']!r}")
            if not (whole or name in shipped("setting") or any("extends" in s for s in found[name].values())):
                hint = nearest(name, shipped("setting"))
                raise UserError(f"{file.where}: {place} is no shipped setting ({hint}), so say which one it extends")
    return found
