"""Defines how values from settings, recipes and the command line overwrite one another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel

from outrider.config.places import components_at, is_component
from outrider.config.recipe import Recipe
from outrider.config.renamed import Renamed, with_present_keys
from outrider.config.yaml_data import flow
from outrider.errors import UserError

Path = tuple[str | int, ...]


class Origin(NamedTuple):
    """The place where a value was written. Error messages begin with the place and the value's key, for example
    ``mine.yaml: settings.frontier.learn.lr``.

    Attributes:
        where: name of the file, or text of the override.
        prefix: first part of the key if the value was written in a subsection, such as ``settings.frontier.``.
        typed: whether the value was written on the command line.
    """

    where: str
    prefix: str = ""
    typed: bool = False


Origins = list[tuple[Path, Origin]]


def dotted(path: Path) -> str:
    """Return a path in a recipe as a dotted key, as on the command line.

    >>> dotted(("explore", 0, "uniform", "n"))
    'explore.0.uniform.n'
    """
    return ".".join(map(str, path))


def assign(data: dict[str, Any], key: str, value: Any, origin: Origin) -> list[Path]:
    """Write ``value`` at a dotted key, and return the paths that were written.

    A recipe overwrites its base recipe and its setting in this way, and the command line overwrites all of them. A
    mapping is merged into the present mapping, key by key. A plain value, a list or a component replaces the present
    value. A replaced component keeps none of its options, even if the new component has the same name. To change only
    one value inside a list or a component, write to the value's dotted key. The key may omit the component's name:
    ``explore.0.n`` means ``explore.0.uniform.n``.

    Raises:
        UserError: the key continues below a plain value (``learn.lr.x``) or has an index past the end of a list. Also
            raised if the key belongs to a component that the recipe does not have, or is from an older Outrider
            version.

    >>> data = {"explore": ["uniform"], "learn": {"lr": 1.0}}
    >>> assign(data, "explore.0.n", 16, Origin("explore.0.n=16"))
    [('explore', 0, 'uniform', 'n')]
    >>> assign(data, "learn", {"epochs": 2}, Origin("mine.yaml"))
    [('learn', 'epochs')]
    >>> data
    {'explore': [{'uniform': {'n': 16}}], 'learn': {'lr': 1.0, 'epochs': 2}}
    """
    *steps, last = key.split(".")
    refuse_old([*steps, last], value, origin)
    place: Any = data
    path: Path = ()
    for k, step in enumerate(steps):
        _refuse_other_component(place, path, [*steps[k:], last], value, origin)
        place, path = _enter(place, path, step, origin)
    _refuse_other_component(place, path, [last], value, origin)
    place, path = _through_name(place, path, last)
    return list(_write(place, (*path, _index(place, path, last, origin)), value))


def refuse_old(steps: Sequence[str], value: Any, origin: Origin) -> None:
    """Reject a key of an older Outrider version in the path or inside the value. The error names the new key."""
    for step in reversed(steps):
        value = {step: value}
    if found := with_present_keys(Recipe, value)[1]:
        raise UserError(old_key(found[0], origin))


def old_key(renamed: Renamed, origin: Origin) -> str:
    """Return the error message for a key of an older Outrider version."""
    return f"{origin.where}: {origin.prefix}{dotted(renamed.old)} is now {origin.prefix}{dotted(renamed.now)}"


def _refuse_other_component(place: Any, path: Path, rest: list[str], value: Any, origin: Origin) -> None:
    """Reject a key of a component other than the recipe's, such as ``task.gym.dataset=x`` for a recipe with the task
    ``countdown``."""
    known = components_at(path)
    if not (isinstance(place, dict) and len(place) == 1 and rest[0] in known and rest[0] not in place):
        return
    [name] = place
    if name not in known or rest[0] in known[name].model_fields:
        return
    for step in reversed(rest):
        value = {step: value}
    here = origin.prefix + dotted(path)
    raise UserError(
        f"{origin.where}: {here} is {name!r}, which has no {rest[0]!r}; to replace it, write it as a "
        f"whole: '{here}={flow(value)}'"
    )


def _enter(place: Any, path: Path, step: str, origin: Origin) -> tuple[Any, Path]:
    """Descend one step to a mapping or list. If the value is missing or is only a component's name, replace the value
    by a mapping."""
    place, path = _through_name(place, path, step)
    key: Any = _index(place, path, step, origin)
    path = (*path, key)
    if isinstance(place, dict) and place.get(key) is None:
        place[key] = {}
    elif is_component(path) and isinstance(place[key], str):
        place[key] = {place[key]: {}}
    return place[key], path


def _through_name(place: Any, path: Path, step: str) -> tuple[Any, Path]:
    """Descend into a component's options if ``step`` is not the component's name (keys may omit the name)."""
    if not (is_component(path) and isinstance(place, dict) and len(place) == 1 and step not in place):
        return place, path
    [name] = place
    if place[name] is None:
        place[name] = {}
    return place[name], (*path, name)


def _index(place: Any, path: Path, step: str, origin: Origin) -> str | int:
    """Return ``step`` as a key of the mapping ``place``, or as an index of the list ``place``."""
    here = origin.prefix + dotted(path)
    match place:
        case {} if not place and step.isdecimal():
            raise UserError(f"{origin.where}: {here} is not written yet, so write it as a whole ({here}=[...])")
        case dict():
            return step
        case list() if step.isdecimal() and int(step) < len(place):
            return int(step)
        case list():
            entries = "1 entry" if len(place) == 1 else f"{len(place)} entries"
            raise UserError(f"{origin.where}: {here}.{step} does not exist: {here} has {entries}, numbered from 0")
    if isinstance(place, BaseModel):
        raise UserError(
            f"{origin.where}: {here} is an instance of {type(place).__name__}; set {step!r} where it is made"
        )
    raise UserError(f"{origin.where}: {here} is {place!r} and has no key {step!r}")


def _write(place: Any, path: Path, value: Any) -> Iterator[Path]:
    key: Any = path[-1]
    old = place[key] if isinstance(place, list) else place.get(key)
    if isinstance(old, dict) and isinstance(value, dict) and not is_component(path):
        for name, part in value.items():
            yield from _write(old, (*path, name), part)
    else:
        place[key] = value
        yield path
