"""Loads a function or class by its import path: ``module:name`` or ``path/to/file.py:name``."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

from pydantic import AfterValidator

from outrider.errors import UserError, nearest


def is_import_path(name: str) -> bool:
    """Return whether a name has the form of an import path.

    >>> is_import_path("my_methods.py:Retry"), is_import_path("uniform")
    (True, False)
    """
    place, _, last = name.rpartition(":")
    return bool(place) and last.isidentifier()


def load_object(where: str, noun: str = "function") -> Any:
    """Load an object by its import path. The path of a file is relative to the working directory.

    A file is executed once, and once more whenever its content has changed. The file can import installed packages, but
    not neighbouring files. Error messages refer to the object as ``noun``.

    Raises:
        UserError: the file, module or name does not exist, or the import fails.

    >>> load_object("math:gcd")(12, 18)
    6
    """
    place, _, name = where.rpartition(":")
    try:
        module = _file(Path(place).expanduser()) if place.endswith(".py") else _module(place)
    except _MissingError as missing:
        raise UserError(f"{noun} {where!r}: {missing}") from None
    except (Exception, SystemExit) as error:
        reason, *_ = str(error).splitlines() or [""]
        raise UserError(f"{noun} {where!r}: {place} cannot be imported: {type(error).__name__}: {reason}") from error
    if not hasattr(module, name):
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise UserError(f"{noun} {where!r}: {place} has no {name!r} ({nearest(name, known)})")
    return getattr(module, name)


def source_of(where: str) -> str:
    """Return the text of the file that an import path names. If the object is defined in another file, that file's text
    is added.

    Texts of imported files are not included. The result is empty if there is no Python file, for example for an
    extension module.

    Raises:
        UserError: see :func:`load_object`.
    """
    found, place = load_object(where), where.rpartition(":")[0]
    named = place if place.endswith(".py") else getattr(sys.modules[place], "__file__", None) or ""
    try:
        defined = inspect.getsourcefile(inspect.unwrap(found)) or ""
    except (TypeError, OSError):  # an instance, or an object from an extension or a notebook
        defined = ""
    files = dict.fromkeys(Path(file).expanduser().absolute() for file in (named, defined) if file.endswith(".py"))
    return "\n".join(file.read_text("utf-8", "replace") for file in files if file.is_file())


def text_without_import(where: str) -> str:
    """Return the text of the file that an import path names, without executing it; empty if there is no such file."""
    place = where.rpartition(":")[0]
    try:
        spec = None if place.endswith(".py") else importlib.util.find_spec(place)
        file = Path(place).expanduser() if place.endswith(".py") else Path((spec and spec.origin) or "")
        return file.read_text("utf-8", "replace") if file.suffix == ".py" else ""
    except (ImportError, ValueError, OSError):  # reported when the function is loaded
        return ""


def _says_where(written: str) -> str:
    if not is_import_path(written):
        raise ValueError(f"{written!r} is not written module:name or path/to/file.py:name")
    return written


Where = Annotated[str, AfterValidator(_says_where)]
"""Type of an option whose value is an import path."""


def place_of_module(thing: Any) -> str:
    """Return the first part of the import path of a class or function (the part before the colon): a file's path or a
    module's name.
    """
    return str(getattr(sys.modules.get(thing.__module__), "__outrider_path__", thing.__module__))


class _MissingError(Exception):
    """Raised if the file or module does not exist."""


class _Source(SourceFileLoader):
    """Compiles a file on every load, without Python's bytecode cache, which misses changes within one second."""

    def path_stats(self, path: Any) -> Any:
        raise OSError


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise _MissingError(f"no such file (looked in {path.absolute().parent})")
    place = str(path.absolute())
    digest = hashlib.blake2b(place.encode() + b"\0" + path.read_bytes(), digest_size=8).hexdigest()
    loader = _Source(f"outrider_file_{digest}", place)
    if loader.name in sys.modules:  # the same class for every load, so that instances can be equal
        return sys.modules[loader.name]
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__outrider_path__ = place  # type: ignore[attr-defined]  # so that other processes find the file
    sys.modules[spec.name] = module  # where dataclasses and pickle look up the module
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[spec.name]
        raise
    return module


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module exists, but a module that it imports does not
        raise _MissingError(
            f"no module {error.name!r} is installed; a file is named by its path, ./{name}.py"
        ) from None
