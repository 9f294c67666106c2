"""Reads files that a user names: shipped recipes and settings, and the user's own files."""

from __future__ import annotations

import importlib.resources
from pathlib import Path
from typing import Any, Literal, NamedTuple

from outrider.config.recipe import Recipe
from outrider.config.renamed import with_present_keys
from outrider.config.yaml_data import read_yaml
from outrider.errors import UserError, nearest

Kind = Literal["recipe", "setting"]

_PACKAGE = importlib.resources.files("outrider")
_ONCE = {  # keys of 0.1
    "profile": "a setting is chosen by --setting NAME (setting= in Python); a recipe that names its model needs none",
    "profiles": "they are settings now: settings: {NAME: …}",
    "setting": "a setting is chosen by --setting NAME (setting= in Python)",
}
_OF_A_RUN = {"from_setting", "from_profile"}  # only Outrider writes these keys


class Written(NamedTuple):
    """A recipe or setting file. ``where`` is the file's name in error messages, and ``name`` is the name of the recipe
    or setting. ``extends`` is the name of the file that this one extends."""

    where: str
    name: str
    text: str
    values: dict[str, Any]
    extends: str | None


def shipped(kind: Kind) -> list[str]:
    """Return the names of the shipped recipes or settings."""
    entries = (_PACKAGE / f"{kind}s").iterdir()
    return sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml"))


def is_file(name_or_path: str) -> bool:
    """Return whether a name is a path. A path contains a slash or ends in a YAML suffix. Any other name must belong to
    a shipped file."""
    return "/" in name_or_path or name_or_path.endswith((".yaml", ".yml"))


def text_of(kind: Kind, name_or_path: str) -> tuple[str, str]:
    """Return the name of a file, as shown in error messages, and the file's text with comments.

    Raises:
        UserError: no shipped file has this name, or the path cannot be read as text.
    """
    if not is_file(name_or_path):
        if name_or_path not in shipped(kind):
            is_setting = kind == "recipe" and name_or_path in shipped("setting")
            hint = "it is a setting" if is_setting else nearest(name_or_path, shipped(kind))
            raise UserError(f"there is no {kind} {name_or_path!r} ({hint})")
        where = f"{name_or_path}.yaml" if kind == "recipe" else f"settings/{name_or_path}.yaml"
        return where, (_PACKAGE / f"{kind}s" / f"{name_or_path}.yaml").read_text("utf-8")
    try:
        return name_or_path, Path(name_or_path).read_text("utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{name_or_path} is not a text file in UTF-8") from None
    except FileNotFoundError:
        hint = nearest(Path(name_or_path).stem, shipped(kind))
        raise UserError(f"there is no {kind} file {name_or_path} ({hint})") from None
    except OSError as error:
        raise UserError(f"cannot read {name_or_path}: {error.strerror}") from None


def read(kind: Kind, name_or_path: str) -> Written:
    """Read a file. Old keys in a run's ``config.yaml`` are renamed, so that runs of older versions can continue.

    Raises:
        UserError: ``text_of`` fails, the file is not a mapping, or the file has a key of Outrider 0.1.
    """
    where, text = text_of(kind, name_or_path)
    values = mapping(read_yaml(text, where), where)
    if _OF_A_RUN & values.keys():
        values = with_present_keys(Recipe, values)[0]
    for key in values:
        if (section := key.split(".")[0]) in _ONCE:
            raise UserError(f"{where}: {key}: {_ONCE[section]}")
        if key.startswith("settings."):
            raise UserError(f"{where}: {key}: write what is under settings as a mapping, settings: {{NAME: …}}")
    extends = values.pop("extends", None)
    if not isinstance(extends, (str, type(None))):
        raise UserError(f"{where}: extends is the name of another {kind}, not {extends!r}")
    return Written(where, Path(name_or_path).stem if is_file(name_or_path) else name_or_path, text, values, extends)


def chain(name_or_path: str) -> list[Written]:
    """Return a recipe's file, preceded by all files that it extends, directly or indirectly. Each file comes after the
    file that it extends.

    Raises:
        UserError: ``read`` fails for a file, or files extend each other in a cycle.
    """
    files = [read("recipe", name_or_path)]
    while (base := files[0].extends) is not None:
        base_file = read("recipe", base)
        if base_file.where in [file.where for file in files]:
            raise UserError(f"{files[0].where}: extends is the name of another recipe, not {base!r}")
        files.insert(0, base_file)
    return files


def mapping(data: Any, file: str, key: str = "") -> dict[str, Any]:
    """Return the data unchanged. Raises UserError if the data is not a mapping."""
    if isinstance(data, dict):
        return data
    here = f"{file}: {key}" if key else file
    raise UserError(f"{here} is empty" if data is None else f"{here} must be a mapping of keys to values")
