"""Finds third-party components, which recipes name by import path or by an entry point of an installed package.

A package declares components in its ``pyproject.toml``::

    [project.entry-points."outrider.components"]
    retry = "my_package.retry:Retry"

A recipe can then use the name ``retry``. If there is no entry point, the recipe uses the import path
``my_package.retry:Retry``, or ``my_methods.py:Retry`` for a class in a file. Importing a component runs its module's
code. A task can name its environment by an import path or an entry point too.
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
"""The entry-point group for components."""

RENAMED = {
    "reads_entropies": "requires",
    "reads_attention": "requires",
    "reads_branching": "requires",
    "reads_pieces": "requires",
    "reads_text": "requires",
    "plans_ahead": "the base class PlansAhead",
}
"""Class attributes with which components declared needed data in version 0.2, mapped to their replacements. Renamed
methods are in the attribute ``old_methods`` of each base class."""


class Plugin(NamedTuple):
    """A component in an installed package.

    Attributes:
        origin: name and version of the distribution that contains the component.
        where: the import path of the component.
        clash: a component with the same name in another package, or None.
    """

    origin: str
    where: str
    clash: Plugin | None = None


class Provenance(Options):
    """The origin of a third-party component, which a run records."""

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
        """Return the text of each function's source file, keyed by the function's import path. The text is empty if
        there is no file."""
        ...


@cache
def plugins() -> dict[str, Plugin]:
    """Return the components in installed packages, keyed by name. If two packages use the same name, the first
    component's ``clash`` is the second component."""
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
        example: an import path for this kind of component, which the message shows as an example.

    >>> unknown_name("my_methods.py:Retry", "my_methods.py:Retry")
    ''
    """
    if is_import_path(name) or name in plugins():
        return ""
    known = nearest(name, plugins()) if plugins() else "there is none"
    return f"{name!r} is no import path, such as {example}, and no component of an installed package ({known})"


def import_path_of(name: str) -> str:
    """Return the import path that the entry point ``name`` declares. If there is no such entry point, return ``name``
    itself.

    Raises:
        UserError: two packages have an entry point with this name.
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
    """Load a component's class by its import path or by the name of its entry point.

    Args:
        base: the required base class, or a union of classes.
        a_noun: the noun that error messages use for the component, with its article, such as "a component".

    Raises:
        UserError: the component cannot be imported, has another base class, or uses the old name of a renamed attribute
            or method.
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
    """Return the name that a recipe uses for a class: the name by which it was loaded, or its import path.

    >>> from fractions import Fraction
    >>> written_name(Fraction)
    'fractions:Fraction'
    """
    return _WRITTEN.get(cls) or f"{cls.__module__}:{cls.__qualname__}"


def provenances_in(value: Any) -> dict[str, Provenance]:
    """Return the provenance of every third-party component in nested options, lists and mappings, keyed by name."""
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
    """Raise an error if a run with several processes uses a component that other processes cannot import.

    Raises:
        UserError: a component's class is defined in ``__main__`` or inside a function.
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
    """Return the origin of a third-party class: its import path, its installed package and a hash of its source."""
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
    """Return the installed packages that contain a module, with their versions; ``""`` for a module from a file. Since
    this search is slow, the result is cached."""
    from importlib import metadata

    if hasattr(sys.modules.get(module), "__outrider_path__"):
        return ""
    names = metadata.packages_distributions().get(module.partition(".")[0], [])
    return ", ".join(f"{name} {metadata.version(name)}" for name in sorted(set(names)))


def _reduce_class(cls: type) -> Any:
    """Pickle a class. If the class was loaded from a Python file, the file's path and the class's name are pickled,
    since other processes cannot import the file as a module."""
    where = getattr(sys.modules.get(cls.__module__), "__outrider_path__", None)
    return cls.__qualname__ if where is None else (load_object, (f"{where}:{cls.__qualname__}",))


copyreg.pickle(type(BaseModel), _reduce_class)
