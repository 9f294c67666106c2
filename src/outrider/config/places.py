"""Finds the places in a recipe that may contain a component. The types of the recipe's options determine these
places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel

from outrider.components import ComponentOf
from outrider.config.recipe import Recipe
from outrider.config.type_paths import alternatives, types_at


def components_at(path: tuple[str | int, ...]) -> Mapping[str, type[BaseModel]]:
    """Return the shipped components, by name, that a recipe may have at ``path``; empty if no component is allowed.

    >>> sorted(components_at(("task",)))[:2], components_at(("learn", "lr"))
    (['countdown', 'environment'], {})
    """
    return next((place.table for place in types_at(Recipe, path) if isinstance(place, ComponentOf)), {})


def is_component(path: tuple[str | int, ...]) -> bool:
    """Return whether a recipe has a component at ``path``.

    >>> is_component(("task",)), is_component(("explore", 0)), is_component(("explore",)), is_component(("learn", "lr"))
    (True, True, False, False)
    """
    return bool(components_at(path))


def keys_at(model: type[BaseModel], path: tuple[str | int, ...]) -> set[str]:
    """Return the keys that are allowed at ``path`` below ``model``. A key is either a field or the name of a shipped
    component.

    >>> sorted(keys_at(Recipe, ("sample",)))[:2]
    ['max_tokens', 'path']
    """
    keys: set[str] = set()
    for here in types_at(model, path):
        if isinstance(here, ComponentOf):
            keys |= here.table.keys()
        elif isinstance(here, type) and issubclass(here, BaseModel):
            keys |= here.model_fields.keys()
    return keys


def tables_in(model: type[BaseModel]) -> list[ComponentOf]:
    """Return the :class:`ComponentOf` annotations in the fields of ``model`` and of all nested models and components.
    There is one entry per kind of component, in order of appearance."""
    found: dict[str, ComponentOf] = {}
    for field in model.model_fields.values():
        for here in _below(Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation):
            if isinstance(here, ComponentOf):
                inner = [table for cls in here.table.values() for table in tables_in(cls)]
                found = {here.noun: here, **{table.noun: table for table in inner}, **found}
            else:
                found |= {table.noun: table for table in tables_in(here) if table.noun not in found}
    return [*found.values()]


def _below(place: Any) -> Iterator[Any]:
    """Yield the :class:`ComponentOf` annotations and pydantic models in a type, including those inside lists and
    mappings."""
    for here in alternatives(place):
        if get_origin(here) in (list, tuple, dict):
            yield from _below(get_args(here)[-1])
        elif isinstance(here, ComponentOf) or (isinstance(here, type) and issubclass(here, BaseModel)):
            yield here
