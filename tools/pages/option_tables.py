"""The reference of a recipe's keys: every option with its type, range, default and meaning, read from the models.

A page is Markdown. A section of a recipe is a table of dotted keys; a piece that a key names (a stage, a link of
credit, a verifier, …) has a section of its own, with its docstring above its table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from docstrings import markdown
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from outrider.components import ComponentOf
from outrider.config import Recipe
from outrider.credit import BASELINES, REWARD_SHAPERS, SHAPERS
from outrider.options import Options

HEAD = "| key | type | range | default | meaning |\n|---|---|---|---|---|\n"
SCALARS = {int: "integer", float: "number", str: "text", bool: "true, false", type(None): "null"}
BOUNDS = (("gt", "> "), ("ge", ">= "), ("lt", "< "), ("le", "<= "), ("min_length", "length >= "))
MANY = 6

# The key of a recipe whose pieces, all the way down, a page lists; its title, and what they are.
PAGES = {
    "explore": ("Stages", "`explore` is a list of stages; each plans rollouts from what the ones before it drew."),
    "credit": ("Credit", "`credit.main` is a chain: shapers of rewards, one baseline, shapers of advantages."),
    "objective": ("Objective", "`objective` puts the loss together from pieces."),
    "engine": ("Engines, their options", "`engine` says what draws rollouts and what trains the policy."),
    "task": ("Tasks and verifies", "`task` says where problems come from and how answers are verified."),
}


def pages() -> dict[str, str]:
    """Name of a page to its text: ``recipe``, and one for each kind of pieces."""
    homes = {table: page for page in PAGES for table in tables_below(Recipe.model_fields[page])}
    written = {"recipe": recipe_page(homes)}
    for page, (title, intro) in PAGES.items():
        written[page] = "\n".join([f"# {title}\n\n{intro}\n", *pieces(page, homes)])
    return written


class Table:
    """One table of pieces: equal to another with the same names and classes, whoever made it."""

    def __init__(self, noun: str, classes: Mapping[str, type[BaseModel]]) -> None:
        self.noun, self.classes = noun, dict(classes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self.classes == other.classes

    def __hash__(self) -> int:
        return hash(tuple(self.classes))


def recipe_page(homes: Mapping[Table, str]) -> str:
    """Every section of a recipe, then what a piece may be."""
    top = {name: field for name, field in Recipe.model_fields.items() if not options_of(field)}
    parts = [
        "# Every key of a recipe\n\nGenerated from the models that check a recipe. A value is changed by its dotted "
        "key, in a file or on the command line; a key without a default has to be there.\n",
        "## The recipe itself\n",
        table(top, "", homes),
    ]
    for name, field in Recipe.model_fields.items():
        for model in options_of(field):
            parts += section(model, name, homes, level=2)
    return "\n".join(parts)


def section(model: type[Options], key: str, homes: Mapping[Table, str], level: int) -> Iterator[str]:
    """The table of one group of options, and then of the groups inside it."""
    yield f"{'#' * level} `{key}`\n\n{markdown(model.__doc__ or '')}\n"
    yield table(model.model_fields, f"{key}.", homes)
    for name, field in model.model_fields.items():
        for inner in options_of(field):
            yield from section(inner, f"{key}.{name}", homes, min(level + 1, 4))


def pieces(page: str, homes: Mapping[Table, str]) -> Iterator[str]:
    """Every piece that belongs on a page, table after table."""
    for found in (found for found, home in homes.items() if home == page):
        groups = {"baseline": BASELINES, "shaper of rewards": REWARD_SHAPERS, "shaper of advantages": SHAPERS}
        parts = groups if found.noun == "credit component" else {found.noun: found.classes}
        for noun, classes in parts.items():
            yield f"## {plural(noun)}\n"
            for name, piece in classes.items():
                yield f"### `{name}` {{ #{anchor(found, name)} }}\n\n{markdown(piece.__doc__ or '')}\n"
                yield table(piece.model_fields, "", homes) if piece.model_fields else "No options.\n"


def table(fields: Mapping[str, FieldInfo], prefix: str, homes: Mapping[Table, str]) -> str:
    """One line an option."""
    lines = []
    for name, field in fields.items():
        kind = "; ".join(said(field.annotation, field.metadata, homes))
        meaning = (field.description or "").replace("<", "&lt;")
        row = (f"`{prefix}{name}`", kind, bounds(field), default(field), meaning)
        lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |\n")
    return HEAD + "".join(lines)


def said(annotation: Any, metadata: list[Any], homes: Mapping[Table, str]) -> Iterator[str]:
    """The type of a value in words, alternatives one by one."""
    for mark in metadata:
        if isinstance(mark, ComponentOf):
            yield links(Table(mark.noun, mark.table), homes)
            yield from ("null" for one in get_args(annotation) if one is type(None))
            return
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from said(inner[0], [*inner[1:]], homes)
    elif origin is Literal:
        yield ", ".join(f"`{choice}`" for choice in inner)
    elif origin in (Union, UnionType):
        for one in inner:
            yield from said(one, [], homes)
    elif origin in (list, tuple):
        ordered = len(inner) if origin is tuple and ... not in inner else 0
        yield f"{f'{ordered} times' if ordered else 'list of'} {' or '.join(said(inner[0], [], homes))}"
    elif origin is dict:
        yield f"{' or '.join(said(inner[0], [], homes))} to {' or '.join(said(inner[1], [], homes))}"
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield "keys below"
    else:
        yield SCALARS.get(annotation, str(annotation).replace("typing.", ""))


def links(found: Table, homes: Mapping[Table, str]) -> str:
    """A noun, and a link to every piece that it may be; of many, to their page."""
    if len(found.classes) > MANY:
        return f"one of {len(found.classes)} [{plural(found.noun).lower()}]({homes[found]}.md)"
    names = ", ".join(f"[{name}]({homes[found]}.md#{anchor(found, name)})" for name in found.classes)
    return f"{found.noun}: {names}"


def bounds(field: FieldInfo) -> str:
    """What a value must keep, without its type."""
    found = [
        f"{sign}{getattr(mark, name)}"
        for mark in field.metadata
        for name, sign in BOUNDS
        if getattr(mark, name, None) is not None
    ]
    return " and ".join(found)


def default(field: FieldInfo) -> str:
    """The default as a recipe would write it; empty where there is none."""
    if field.is_required():
        return "*required*"
    value = field.get_default(call_default_factory=True)
    if options_of(field) and isinstance(value, BaseModel):
        return ""
    if isinstance(value, BaseModel):
        piece = next(mark for mark in marks(field.annotation, field.metadata) if isinstance(mark, ComponentOf))
        return f"`{next(name for name, known in piece.table.items() if type(value) is known)}`"
    return f"`{json.dumps(value)}`"


def options_of(field: FieldInfo) -> list[type[Options]]:
    """The groups of options that a field may hold; not its pieces, which are told apart by their names."""
    if any(isinstance(mark, ComponentOf) for mark in marks(field.annotation, field.metadata)):
        return []
    return [one for one in leaves(field.annotation) if isinstance(one, type) and issubclass(one, Options)]


def tables_below(field: FieldInfo) -> dict[Table, None]:
    """Every table of pieces under a field, in order of appearance."""
    found: dict[Table, None] = {}
    models: list[type[BaseModel]] = [*options_of(field)]
    for mark in marks(field.annotation, field.metadata):
        if isinstance(mark, ComponentOf):
            found[Table(mark.noun, mark.table)] = None
            models += mark.table.values()
    for model in models:
        for inner in model.model_fields.values():
            found |= tables_below(inner)
    return found


def marks(annotation: Any, metadata: list[Any]) -> Iterator[Any]:
    """Everything that annotates a type, on the outside or within."""
    yield from metadata
    if get_origin(annotation) is Annotated:
        yield from annotation.__metadata__
    if get_origin(annotation) is not Literal:
        for inner in get_args(annotation):
            yield from marks(inner, [])


def leaves(annotation: Any) -> Iterator[Any]:
    """The types that a type is made of."""
    inner = get_args(annotation)
    if not inner or get_origin(annotation) is Literal:
        yield annotation
    for one in inner:
        yield from leaves(one)


def anchor(found: Table, name: str) -> str:
    """Unique on a page: two tables may share a name."""
    return f"{found.noun.replace(' ', '-').lower()}-{name.replace('_', '-')}"


def plural(noun: str) -> str:
    """A heading."""
    head, of, rest = noun.partition(" of ")
    word = {"way to aggregate": "ways to aggregate"}.get(head, f"{head[:-1]}ies" if head.endswith("y") else f"{head}s")
    return f"{word}{of}{rest}"[0].upper() + f"{word}{of}{rest}"[1:]
