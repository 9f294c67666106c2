"""What a recipe and a setting say together: the layers of a configuration, the last of which counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from outrider.config.merge import Origin
from outrider.config.shipped import Written, is_file, mapping, read, shipped
from outrider.errors import UserError, nearest

DEFAULT = "countdown"


class Layer(NamedTuple):
    """Values by dotted key, and where they were written."""

    values: dict[str, Any]
    origin: Origin


class Step(NamedTuple):
    """One of the settings that a run is in: its name, its file, and by recipe what that one says of it."""

    name: str
    file: Written | None
    own: dict[str, Layer]


def steps_of(recipes: Sequence[Written], asked: str | None) -> list[Step]:
    """The setting that is asked for, after those that it extends; none for a run without a setting.

    Without one that is asked for it is Countdown; but a recipe that names its model is a whole run already.

    Raises:
        UserError: no such setting, or one with a file for a recipe that names its model.
    """
    _refuse_misspelt(recipes)
    models = [(file.where, file.values["model"]) for file in recipes if "model" in file.values]
    if models and asked is None:
        return []
    steps: list[Step] = []
    name: str | None = asked or DEFAULT
    while name is not None:
        step, name = _step(recipes, name)
        if step.name in [above.name for above in steps]:
            raise UserError(f"{recipes[-1].where}: the setting {step.name!r} extends itself")
        steps.insert(0, step)
    if models and any(step.file for step in steps):
        where, model = models[-1]
        raise UserError(f"{where}: it names its model ({model}), so it is a whole run and takes no setting {asked!r}")
    return steps


def layers(recipes: Sequence[Written], steps: Sequence[Step]) -> list[Layer]:
    """What is written over what, the last of which counts.

    First comes the setting's file, after that which it extends. Then each recipe, the one that is extended before the
    one that extends it: what it says, and after that what it says of this setting under ``settings``. So whatever a
    recipe says holds in every setting, and nothing that a file says is replaced by what it extends.
    """
    found = [_layer(step.file, "summary") for step in steps if step.file]
    for file in recipes:
        found.append(_layer(file, "settings"))
        found += [step.own[file.where] for step in steps if file.where in step.own]
    return found


def _layer(file: Written, without: str) -> Layer:
    return Layer({key: value for key, value in file.values.items() if key != without}, Origin(file.where))


def _own(file: Written) -> dict[str, dict[str, Any] | None]:
    """What a recipe says of settings, by their names; None: it leaves what it inherits of one."""
    own = mapping(file.values.get("settings") or {}, file.where, "settings")
    return {n: None if said is None else mapping(said, file.where, f"settings.{n}") for n, said in own.items()}


def _step(recipes: Sequence[Written], name: str) -> tuple[Step, str | None]:
    """One setting, and the name of what it extends: as the last recipe says that says it, else as its file does."""
    known = _known(recipes)
    if not is_file(name) and name not in known:
        raise UserError(f"{recipes[-1].where}: there is no setting {name!r} ({nearest(name, known)})")
    file = read("setting", name) if is_file(name) or name in shipped("setting") else None
    name = file.name if file else name
    base = file.extends if file else None
    own: dict[str, Layer] = {}
    for recipe in recipes:
        said = _own(recipe).get(name, {})
        if said is None:  # what is inherited is left
            base, own = file.extends if file else None, {}
            continue
        place = f"settings.{name}"
        base = said.get("extends", base)
        if not isinstance(base, (str, type(None))):
            raise UserError(f"{recipe.where}: {place}.extends is the name of another setting, not {base!r}")
        values = {key: value for key, value in said.items() if key != "extends"}
        own[recipe.where] = Layer(values, Origin(recipe.where, f"{place}."))
    return Step(name, file, own), base


def _known(recipes: Sequence[Written]) -> list[str]:
    """Shipped settings and those that the recipes make, without those that the last to name them sets to null."""
    last = {name: said for file in recipes for name, said in _own(file).items()}
    return sorted({*shipped("setting"), *last} - {name for name, said in last.items() if said is None})


def _refuse_misspelt(recipes: Sequence[Written]) -> None:
    """Values under a name that is nearly that of a shipped setting would never be used.

    Raises:
        UserError: the name.
    """
    whole = {name for file in recipes for name, said in _own(file).items() if {"extends", "model"} & {*(said or ())}}
    for file in recipes:
        for name in {*_own(file)} - whole - {*shipped("setting")}:
            hint = nearest(name, shipped("setting"))
            if hint.startswith("did you mean") and not any("model" in recipe.values for recipe in recipes):
                raise UserError(f"{file.where}: settings.{name}: there is no such setting ({hint})")
