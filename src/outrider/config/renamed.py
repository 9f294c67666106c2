"""Renames keys of older Outrider versions to their present names, and back. Only this module reads ``old_keys``.

A key counts as old only in an options class that lists the key in ``old_keys``. For example, ``judge`` is an old key of
the task ``table``, but a third-party task may have an option ``judge``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel

from outrider.components import ComponentOf
from outrider.config.type_paths import types_at

_Place = tuple[str | int, ...]
_Names = Mapping[_Place, str]  # the name that replaces a key, by the key's path


class Renamed(NamedTuple):
    """The path at which an old key was found, and the same path with present names."""

    old: _Place
    now: _Place


def with_present_keys(model: type[BaseModel], data: Any, outside: bool = True) -> tuple[Any, list[Renamed]]:
    """Rename all old keys in data for ``model``. Return the new data, with keys in the same order, and the list of
    renamed keys.

    Args:
        outside: whether to import third-party components to rename their old keys as well.

    >>> from outrider.config.recipe import Recipe
    >>> data, found = with_present_keys(Recipe, {"task": {"table": {"judge": "exact"}}})
    >>> data, found[0].now
    ({'task': {'table': {'verifier': 'exact'}}}, ('task', 'table', 'verifier'))
    """
    found: list[Renamed] = []
    return _renamed([model], data, Renamed((), ()), {}, found, outside), found


def with_old_keys(model: type[BaseModel], data: Any) -> Any:
    """Return data for ``model`` in which every key has its original name, so that the data has the same hash as in
    older versions.

    >>> from outrider.config.recipe import Recipe
    >>> with_old_keys(Recipe, {"task": {"table": {"verifier": "exact"}}})
    {'task': {'table': {'judge': 'exact'}}}
    """
    return _renamed([model], data, Renamed((), ()), {}, None, True)


def _renamed(
    types: Sequence[Any], data: Any, place: Renamed, names: _Names, found: list[Renamed] | None, outside: bool
) -> Any:
    """Rename keys to their present names, and add the old keys to ``found``. If ``found`` is None, rename keys to their
    old names instead."""
    if isinstance(data, list):
        items: list[tuple[Any, Any, Any]] = [(i, i, part) for i, part in enumerate(data)]
    elif isinstance(data, dict):
        names = {**names, **{path: name for here in types for path, name in _names(here, found is None).items()}}
        items = [(key, names.get((key,), key), part) for key, part in data.items()]
    elif isinstance(data, str) and any(isinstance(here, ComponentOf) for here in types):  # a component's bare name
        return next(iter(_renamed(types, {data: None}, place, names, found, outside)))
    else:
        return data
    parts = {}
    for key, other, part in items:
        there = Renamed((*place.old, key), (*place.now, other))
        if found is not None and other != key:
            found.append(there)
        below = {path[1:]: name for path, name in names.items() if len(path) > 1 and path[0] == key}
        inner = [each for here in types for each in _inside(here, key if found is None else other, outside)]
        parts[other] = _renamed(inner, part, there, below, found, outside)
    return [*parts.values()] if isinstance(data, list) else parts


def _names(here: Any, back: bool) -> _Names:
    old: Mapping[str, str] = getattr(here, "old_keys", {})
    found: dict[_Place, str] = {}
    for key, now in old.items():
        *outer, last = key.split(".")
        if back:
            found[*outer, now] = last
        else:
            found[*outer, last] = now
    return found


def _inside(here: Any, step: str | int, outside: bool) -> list[Any]:
    if isinstance(here, ComponentOf) and step not in here.table and not outside:
        return []
    return [*types_at(here, (step,))]
