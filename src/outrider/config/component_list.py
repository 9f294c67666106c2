"""Lists all components that a recipe can name, including environments, from Outrider and from installed packages."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import NamedTuple

from pydantic import BaseModel

from outrider import __version__
from outrider.components import ComponentOf
from outrider.config.places import tables_in
from outrider.config.recipe import Recipe
from outrider.credit import Baseline, RewardShaper, Shaper
from outrider.errors import UserError
from outrider.plugins import Plugin, load_component, plugins
from outrider.tasks.environment import load_environment

_MARKUP = re.compile(r":\w+:`([^`]*)`")
_CREDIT = {RewardShaper: "reward shaper", Baseline: "baseline", Shaper: "shaper"}


class ComponentInfo(NamedTuple):
    """A component's summary for lists.

    Attributes:
        kind: the component's role in a recipe.
        origin: the component's package, with its version.
        options: the names of the component's options.
        where: the component's import path.
    """

    kind: str
    name: str
    origin: str
    options: tuple[str, ...]
    where: str
    summary: str


def list_components() -> list[ComponentInfo]:
    """Return all components, including those of installed packages, sorted by kind and name.

    Raises:
        UserError: a component of an installed package cannot be loaded, or is of a kind that recipes do not use.
    """
    tables = [table for table in tables_in(Recipe) if table.base is not None]
    shipped = [
        _info(table, name, cls, f"outrider {__version__}") for table in tables for name, cls in table.table.items()
    ]
    return sorted([*shipped, *_of_packages(tables)])


def _of_packages(tables: list[ComponentOf]) -> Iterator[ComponentInfo]:
    for name, plugin in plugins().items():
        fitting = [table for table in tables if table.find(name) is not None]
        if not fitting:
            yield _environment_info(name, plugin)
        for table in fitting:
            if name in table.table:
                raise UserError(f"{plugin.origin} has a {table.noun} {name!r}, which is shipped with Outrider")
            found = table.find(name)
            assert found is not None
            yield _info(table, name, found, plugin.origin)


def _environment_info(name: str, plugin: Plugin) -> ComponentInfo:
    """Return the summary of an environment from an installed package. Raise UserError if the component is not an
    environment."""
    try:
        cls = load_environment(name)
    except UserError:
        load_component(name, BaseModel, "a component")  # if loading fails, raises an error with the reason
        raise UserError(f"{plugin.origin}: {name!r} ({plugin.where}) is of no kind that a recipe names") from None
    return ComponentInfo("environment", name, plugin.origin, (), plugin.where, _summary(cls))


def _info(table: ComponentOf, name: str, cls: type[BaseModel], origin: str) -> ComponentInfo:
    kind = next((noun for base, noun in _CREDIT.items() if issubclass(cls, base)), table.noun)
    where = f"{cls.__module__}:{cls.__qualname__}"
    return ComponentInfo(kind, name, origin, (*cls.model_fields,), where, _summary(cls))


def _summary(cls: type) -> str:
    """Return the first paragraph of a class's docstring, without markup."""
    first = (inspect.getdoc(cls) or "").partition("\n\n")[0].replace("\n", " ")
    return _MARKUP.sub(r"\1", first).replace("``", "")
