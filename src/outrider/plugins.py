"""Third-party components, which recipes name by import path or by an entry point of an installed package.

A package offers components in its ``pyproject.toml``::

    [project.entry-points."outrider.components"]
    retry = "my_package.retry:Retry"

A recipe can then name the component ``retry``. Without an entry point the recipe names ``my_package.retry:Retry``, or
``my_methods.py:Retry`` for a class in a file. Importing a component runs the module's code. A task names its
environment in the same way.
"""

from __future__ import annotations

import copyreg
import hashlib
import sys
from functools import cache
from types import UnionType
from typing import Any, NamedTuple, Protocol, get_args, runtime_checkable

from pydantic import BaseModel, Field

from outrider.errors import UserError, nearest
from outrider.importing import is_import_path, load_object, source_of
from outrider.options import Options

GROUP = "outrider.components"
"""The entry-point group of components."""

RENAMED = {
    "reads_entropies": "requires",
    "reads_attention": "requires",
    "reads_branching": "requires",
    "reads_pieces": "requires",
    "reads_text": "requires",
    "plans_ahead": "the base class PlansAhead",
}
"""Class attributes by which components of version 0.2 declared the data they need, mapped to their replacements.
Renamed methods are in the attribute ``old_methods`` of each base class."""


class Plugin(NamedTuple):
    """A component that an installed package offers.

    Attributes:
        origin: name and version of the distribution that offers the component.
        where: the import path of the component.
        clash: the component of another package with the same name; None if there is none.
    """

    origin: str
    where: str
    clash: Plugin | None = None


class Provenance(Options):
    """The origin of a third-party component, as a run records it."""

    where: str = Field(description="import path of the component's class")
    distribution: str = Field(
        "",
        description=(
            "name and version of the installed package that contains the component; empty: the component comes from a "
            "file"
        ),
    )
    source: str = Field("", description="hash of the component's source code; empty: there is no source file")


@runtime_checkable
class CallsFunctions(Protocol):
    """Options that name third-party functions, such as a reward function."""

    def sources(self) -> dict[str, str]:
        """The source file's text for each function, by the function's import path; empty if there is no file."""
        ...


@cache
def plugins() -> dict[str, Plugin]:
    """Return the components of installed packages by name; for a name in two packages, ``clash`` is the second
    component."""
    from importlib import metadata  # imported here, since most recipes do not need it

    found: dict[str, Plugin] = {}
    for entry in metadata.entry_points(group=GROUP):
        plugin = Plugin(f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown package", entry.value)
        other = found.get(entry.name, plugin)
        found[entry.name] = plugin if other == plugin else other._replace(clash=plugin)
    return found


def unknown_name(name: str, example: str) -> str:
    """Return an error message if a name is neither an import path nor an installed component, otherwise ``""``.

    Args:
        example: an import path that the message gives as an example for this kind of component.

    >>> unknown_name("my_methods.py:Retry", "my_methods.py:Retry")
    ''
    """
    if is_import_path(name) or name in plugins():
        return ""
    known = nearest(name, plugins()) if plugins() else "there is none"
    return f"{name!r} is no import path, such as {example}, and no component of an installed package ({known})"


def import_path_of(name: str) -> str:
    """Return the import path in the entry point called ``name``; without such an entry point, return ``name`` itself.

    Raises:
        UserError: two packages use this name.
    """
    plugin = plugins().get(name)
    if plugin is None:
        return name
    if plugin.clash is not None:
        raise UserError(
            f"{plugin.origin} and {plugin.clash.origin} both have a component {name!r}: name one by its import path, "
            f"{plugin.where} or {plugin.clash.where}"
        )
    return plugin.where


_WRITTEN: dict[type, str] = {}
"""Loaded component classes, with the names by which recipes loaded them."""


def load_component(name: str, base: Any, a_noun: str) -> type[Options]:
    """Load the class of a component by its import path or by the name of its entry point.

    Args:
        base: the required base class, or a union of classes.
        a_noun: the noun for the component in error messages, with its article.

    Raises:
        UserError: the component cannot be imported, is of another kind, or has an attribute or method of an older
            version.
    """
    where = import_path_of(name)
    found = load_object(where, a_noun.partition(" ")[2])
    bases = get_args(base) if isinstance(base, UnionType) else (base,)
    if not (isinstance(found, type) and issubclass(found, bases)):
        wanted = " or ".join(f"{each.__module__}.{each.__name__}" for each in bases)
        raise UserError(f"{where!r} is not {a_noun}: it should be a class that inherits from {wanted}")
    renamed = {**RENAMED, **getattr(found, "old_methods", {})}
    if old := [name for name in renamed if name in vars(found)]:
        raise UserError(f"{where!r} has {old[0]!r}, which Outrider no longer reads: use {renamed[old[0]]}")
    _WRITTEN[found] = name
    return found


def written_name(cls: type) -> str:
    """Return the name that a recipe uses for a class: the name it was loaded by, or its import path.

    >>> from fractions import Fraction
    >>> written_name(Fraction)
    'fractions:Fraction'
    """
    return _WRITTEN.get(cls) or f"{cls.__module__}:{cls.__qualname__}"


def provenances_in(value: Any) -> dict[str, Provenance]:
    """Return the provenance of every third-party component in a tree of options, lists and mappings, by name."""
    found: dict[str, Provenance] = {}
    if isinstance(value, BaseModel):
        cls = type(value)
        nested = hasattr(sys.modules.get(cls.__module__), "__outrider_path__") and cls not in _WRITTEN
        if isinstance(value, Options) and not cls.__module__.startswith("outrider.") and not nested:
            found[written_name(cls)] = provenance_of(cls)
        if isinstance(value, CallsFunctions):
            found |= {where: _of_function(where, text) for where, text in value.sources().items()}
        for key in cls.model_fields:
            found |= provenances_in(getattr(value, key))
    elif isinstance(value, dict):
        for part in value.values():
            found |= provenances_in(part)
    elif isinstance(value, list | tuple):
        for part in value:
            found |= provenances_in(part)
    return found


def refuse_main(options: BaseModel, processes: int) -> None:
    """Raise an error if a run with several processes uses a component that exists only in this process.

    Raises:
        UserError: a component is defined in ``__main__`` or inside a function.
    """
    if processes == 1:
        return
    for name in provenances_in(options):
        if name.startswith("__main__:") or "<locals>" in name:
            raise UserError(
                f"{name.rpartition(':')[2]!r} is defined in this script or notebook, which other processes do not "
                f"import: put it into a file, or train with one process (train.ranks=1)"
            )


def provenance_of(cls: type) -> Provenance:
    """Return the provenance of a third-party class: the distribution of its module, and a hash of its source."""
    where = import_path_of(written_name(cls))
    try:
        text = source_of(where)
    except UserError:  # a class that was defined in a notebook or a function
        text = ""
    return Provenance(where=where, distribution=_distribution(cls.__module__), source=_hash(text))


def _of_function(where: str, text: str) -> Provenance:
    place = where.rpartition(":")[0]
    return Provenance(
        where=where, distribution="" if place.endswith(".py") else _distribution(place), source=_hash(text)
    )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16] if text else ""


@cache
def _distribution(module: str) -> str:
    """Return the installed packages that contain a module, with versions; ``""`` for a file. The result is cached,
    because the look-up is slow."""
    from importlib import metadata

    if hasattr(sys.modules.get(module), "__outrider_path__"):
        return ""
    names = metadata.packages_distributions().get(module.partition(".")[0], [])
    return ", ".join(f"{name} {metadata.version(name)}" for name in sorted(set(names)))


def _reduce_class(cls: type) -> Any:
    """Pickle a class that was loaded from a file as the file's path, because its module exists only in this process."""
    where = getattr(sys.modules.get(cls.__module__), "__outrider_path__", None)
    return cls.__qualname__ if where is None else (load_object, (f"{where}:{cls.__qualname__}",))


copyreg.pickle(type(BaseModel), _reduce_class)
