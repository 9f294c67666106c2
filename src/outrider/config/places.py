"""Which places of a recipe hold a piece, from the types, so that a new piece needs no change here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel

from outrider.config.recipe import Recipe
from outrider.pieces import PieceOf


@cache
def pieces_at(path: tuple[str | int, ...]) -> Mapping[str, type[BaseModel]]:
    """The pieces, by name, that a recipe may have at this place; empty where it has none.

    >>> sorted(pieces_at(("task",)))[:2], pieces_at(("learn", "lr"))
    (['countdown', 'gym'], {})
    """
    return next((place.table for place in _at(Recipe, path) if isinstance(place, PieceOf)), {})


def is_piece(path: tuple[str | int, ...]) -> bool:
    """Whether a recipe holds a piece at this place.

    >>> is_piece(("task",)), is_piece(("explore", 0)), is_piece(("explore",)), is_piece(("learn", "lr"))
    (True, True, False, False)
    """
    return bool(pieces_at(path))


def _at(place: Any, path: tuple[str | int, ...]) -> Iterator[Any]:
    """Everything that the types allow at ``path`` below ``place``: models, piece tables, plain types."""
    for here in _alternatives(place):
        if not path:
            yield here
            continue
        step, rest = path[0], path[1:]
        if isinstance(here, PieceOf):
            if step in here.table:
                yield from _at(here.table[str(step)], rest)
        elif isinstance(here, type) and issubclass(here, BaseModel):
            if (field := here.model_fields.get(str(step))) is not None:
                whole = (field.annotation, *field.metadata)
                yield from _at(Annotated[whole] if field.metadata else field.annotation, rest)
        elif get_origin(here) in (list, tuple, dict):
            yield from _at(get_args(here)[-1], rest)


def _alternatives(place: Any) -> Iterator[Any]:
    """An annotation taken apart: the members of a union, and of ``Annotated`` the piece table if there is one."""
    if get_origin(place) is Annotated:
        base, *metadata = get_args(place)
        tables = [m for m in metadata if isinstance(m, PieceOf)]
        yield from tables or _alternatives(base)
    elif isinstance(place, (PieceOf, type)) or get_origin(place) in (list, tuple, dict):
        yield place
    else:
        for member in get_args(place):
            yield from _alternatives(member)
