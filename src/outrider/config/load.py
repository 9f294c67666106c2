"""Recipes by name or path, with a profile and dotted overrides applied."""

from __future__ import annotations

import copy
import importlib.resources
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from outrider.config.overlay import Origin, Origins, assign
from outrider.config.recipe import Recipe
from outrider.config.sentences import Model, parse
from outrider.config.yaml_data import read_yaml
from outrider.errors import UserError, nearest

_SHIPPED = importlib.resources.files("outrider") / "recipes"


class RecipeInfo(NamedTuple):
    """A shipped recipe in one line."""

    name: str
    paper: str
    summary: str


def load_recipe(name_or_path: str, overrides: Sequence[str] = (), profile: str | None = None) -> Recipe:
    """The recipe of a shipped name or a YAML file, with a profile and then the overrides applied.

    An override is ``key=value``: a dotted key and a YAML value, as in ``explore.0.n=16``; the last one on a key
    counts. A profile is a mapping of such keys and values: first what is shipped for all recipes in
    ``recipes/profiles/<name>.yaml``, then what the file has of its own. A file that ``extends`` a recipe starts from
    that one's values and profiles, without a profile that it sets to null. A piece that such a file or an override
    writes as a whole (``task={table: …}``) replaces the one that is there, options and all.

    A profile is chosen by ``profile=name`` among the overrides, else by the argument, else by the file's own
    ``profile``; ``profile=null`` applies none. One that nobody asked for, and under which the file has nothing, must
    not replace what an extending file says.

    Raises:
        UserError: no such recipe, profile or key; a value out of range; not YAML. Says where.

    >>> recipe = load_recipe("grpo", ["explore.0.n=16", "learn.lr=2e-4"])
    >>> recipe.explore, recipe.learn.lr
    ([Uniform(n=16)], 0.0002)
    """
    file, data = _read(name_or_path)
    data.setdefault("name", Path(file).stem)
    changes = [split_override(override) for override in overrides]
    asked = [value for key, value, _ in changes if key == "profile"]
    default, profiles = data.pop("profile", None), data.pop("profiles", None)
    chosen = asked[-1] if asked else default if profile is None else profile
    written = copy.deepcopy(data)
    origins = [] if chosen is None else _apply_profile(data, chosen, profiles, file)
    if not asked and profile is None:
        _refuse_replaced(written, data, name_or_path, chosen)
    return _override(Recipe, data, [change for change in changes if change[0] != "profile"], file, origins)


def load_options(cls: type[Model], data: dict[str, Any], overrides: Sequence[str], source: str) -> Model:
    """Options of a command: ``data`` from ``source``, then dotted overrides, then parsed. Raises as above."""
    return _override(cls, copy.deepcopy(data), [split_override(override) for override in overrides], source, [])


def list_recipes() -> list[RecipeInfo]:
    """The shipped recipes, by name."""
    found = []
    for name in _shipped_names():
        _, data = _read(name)
        found.append(RecipeInfo(name, str(data.get("paper", "")), str(data.get("summary", ""))))
    return found


def _read(name_or_path: str, extended: tuple[str, ...] = ()) -> tuple[str, dict[str, Any]]:
    """A recipe's file and data, on top of the recipe that it extends."""
    file, text = recipe_text(name_or_path)
    own = _mapping(read_yaml(text, file), file)
    base = own.pop("extends", None)
    if base is None:
        return file, own
    if not isinstance(base, str) or file in extended:
        raise UserError(f"{file}: extends is the name of another recipe, not {base!r}")
    _, data = _read(base, (*extended, file))
    data.pop("name", None)
    profiles = own.pop("profiles", None)
    for key, value in own.items():
        assign(data, key, value, Origin(file), whole=True)
    known = data.setdefault("profiles", {})
    for name, values in _mapping({} if profiles is None else profiles, file, "profiles").items():
        if values is None and name in known:
            del known[name]
        else:
            _extend(known.setdefault(name, {}), _mapping(values, file, f"profiles.{name}"), file, name)
    return file, data


def _extend(layer: dict[str, Any], own: Mapping[str, Any], file: str, name: str) -> None:
    """Write a file's own values of a profile over those that it inherits."""
    for key, value in own.items():
        for deeper in [old for old in layer if isinstance(value, list) and old.startswith(f"{key}.")]:
            del layer[deeper]  # a place in the list that this one replaces
        if key.split(".")[0] in layer:
            assign(layer, key, value, Origin(file, f"profiles.{name}."))
        else:
            layer[key] = value  # for a part of the recipe that only the recipe itself has written


def recipe_text(name_or_path: str) -> tuple[str, str]:
    """What to call a recipe's file in sentences, and its text, comments and all.

    A bare name is a shipped recipe; anything with a slash or a YAML ending is a file.

    Raises:
        UserError: neither, or a file that cannot be read as text.
    """
    if "/" not in name_or_path and not name_or_path.endswith((".yaml", ".yml")):
        if name_or_path not in _shipped_names():
            raise UserError(f"there is no recipe {name_or_path!r} ({nearest(name_or_path, _shipped_names())})")
        return f"{name_or_path}.yaml", (_SHIPPED / f"{name_or_path}.yaml").read_text("utf-8")
    try:
        return name_or_path, Path(name_or_path).read_text("utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{name_or_path} is not a text file in UTF-8") from None
    except FileNotFoundError:
        hint = nearest(Path(name_or_path).stem, _shipped_names())
        raise UserError(f"there is no recipe file {name_or_path} ({hint})") from None
    except OSError as error:
        raise UserError(f"cannot read {name_or_path}: {error.strerror}") from None


def split_override(override: str) -> tuple[str, Any, str]:
    """``key=value`` as key, parsed value, and the whole as typed, for error sentences."""
    key, equals, value = override.partition("=")
    if not equals or not all(key.split(".")):
        raise UserError(f"an override is written key=value, as in train.steps=200, not {override!r}")
    return key, read_yaml(value, override), override


def profile_text(name: str) -> str:
    """What all shipped recipes share under a profile; ``""`` where there is nothing."""
    return (_SHIPPED / f"profiles/{name}.yaml").read_text("utf-8") if name in _shipped_names("profiles") else ""


def _shipped_names(folder: str = "") -> list[str]:
    entries = (_SHIPPED / folder).iterdir()
    return sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml"))


def _mapping(data: Any, file: str, key: str = "") -> dict[str, Any]:
    if isinstance(data, dict):
        return data
    here = f"{file}: {key}" if key else file
    raise UserError(f"{here} is empty" if data is None else f"{here} must be a mapping of keys to values")


def _apply_profile(data: dict[str, Any], chosen: Any, profiles: Any, file: str) -> Origins:
    own = _mapping({} if profiles is None else profiles, file, "profiles")
    shared = _shipped_names("profiles")
    known = sorted({*own, *shared})
    if not isinstance(chosen, str) or chosen not in known:
        raise UserError(f"{file}: there is no profile {chosen!r} ({nearest(str(chosen), known)})")
    data["from_profile"] = chosen
    layers = []
    if chosen in shared:
        where = f"profiles/{chosen}.yaml"
        layers.append((_mapping(read_yaml((_SHIPPED / where).read_text("utf-8"), where), where), Origin(where)))
    if chosen in own:
        layers.append((_mapping(own[chosen], file, f"profiles.{chosen}"), Origin(file, f"profiles.{chosen}.")))
    return [
        (path, origin) for values, origin in layers for key, value in values.items()
        for path in assign(data, key, value, origin)
    ]  # fmt: skip


def _refuse_replaced(written: Any, applied: Any, name: str, profile: Any) -> None:
    """Whoever extends a recipe and sets a value would not guess that an inherited profile replaces it.

    Raises:
        UserError: the first value of the file that is not the one of the run.
    """
    file, text = recipe_text(name)
    own = _mapping(read_yaml(text, file), file) if profile is not None else {}
    if "extends" not in own or profile in _mapping(own.get("profiles") or {}, file, "profiles"):
        return
    about = ("extends", "profile", "profiles")
    for path in _leaves({key: value for key, value in own.items() if key not in about}):
        if _at(written, path) != _at(applied, path):
            raise UserError(
                f"{file}: {'.'.join(path)} would be replaced by the profile {profile!r} of {own['extends']}; write it "
                f"under profiles: {{{profile}: …}}, or choose another profile (null: none)"
            )


def _leaves(data: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths of what is no mapping; a list is one value."""
    if isinstance(data, dict) and data:
        for key, value in data.items():
            yield from _leaves(value, (*path, key))
    else:
        yield path


def _at(data: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _override(
    cls: type[Model], data: dict[str, Any], changes: Sequence[tuple[str, Any, str]], file: str, origins: Origins
) -> Model:
    for key, value, typed in changes:
        origins += [(path, Origin(typed)) for path in assign(data, key, value, Origin(typed), whole=True)]
    return parse(cls, data, file, origins)
