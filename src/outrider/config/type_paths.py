"""Finds the types that an options class allows for the value of a nested key, such as ``learn.lr``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel

from outrider.components import ComponentOf


def types_at(place: Any, path: tuple[str | int, ...]) -> Iterator[Any]:
    """Yield every type that the annotation ``place`` allows for the value of a nested key. For the key ``learn.lr``,
    ``path`` is ``("learn", "lr")``. A type is a pydantic model, a :class:`ComponentOf` annotation or a plain type."""
    for here in alternatives(place):
        if not path:
            yield here
            continue
        step, rest = path[0], path[1:]
        if isinstance(here, ComponentOf):
            if (component := here.find(str(step))) is not None:
                yield from types_at(component, rest)
        elif isinstance(here, type) and issubclass(here, BaseModel):
            if (field := here.model_fields.get(str(step))) is not None:
                whole = (field.annotation, *field.metadata)
                yield from types_at(Annotated[whole] if field.metadata else field.annotation, rest)
        elif get_origin(here) in (list, tuple, dict):
            yield from types_at(get_args(here)[-1], rest)


def alternatives(place: Any) -> Iterator[Any]:
    """Yield the alternatives in an annotation: the members of a union, or each :class:`ComponentOf` in an ``Annotated``
    type."""
    if get_origin(place) is Annotated:
        base, *metadata = get_args(place)
        tables = [m for m in metadata if isinstance(m, ComponentOf)]
        yield from tables or alternatives(base)
    elif isinstance(place, (ComponentOf, type)) or get_origin(place) in (list, tuple, dict):
        yield place
    else:
        for member in get_args(place):
            yield from alternatives(member)
