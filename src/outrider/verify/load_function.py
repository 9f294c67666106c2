"""A Python function by the name that a recipe gives it: ``module:name`` or ``path/to/file.py:name``."""

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


def load_function(where: str) -> Any:
    """The object called ``name`` in a module or in a file. A path is relative to the working directory.

    A file is run once per call, under a module name of its own; it can import installed packages, not files beside it.

    Raises:
        UserError: there is no such file, module or name, or importing it fails.

    >>> load_function("math:gcd")(12, 18)
    6
    """
    place, _, name = where.rpartition(":")
    try:
        module = _file(Path(place).expanduser()) if place.endswith(".py") else _module(place)
    except _MissingError as missing:
        raise UserError(f"function {where!r}: {missing}") from None
    except (Exception, SystemExit) as error:
        raise UserError(f"function {where!r}: {place} cannot be imported: {type(error).__name__}: {error}") from error
    if not hasattr(module, name):
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise UserError(f"function {where!r}: {place} has no {name!r} ({nearest(name, known)})")
    return getattr(module, name)


def source_of(where: str) -> str:
    """The text of the file that a name is loaded from, and of the one that defines it if that is another: what they
    import is not in it. Empty where there is none, as for an extension.

    Raises:
        UserError: as :func:`load_function`.
    """
    found, place = load_function(where), where.rpartition(":")[0]
    named = place if place.endswith(".py") else getattr(sys.modules[place], "__file__", None) or ""
    try:
        defined = inspect.getsourcefile(inspect.unwrap(found)) or ""
    except TypeError:  # an object of a class, or of an extension
        defined = ""
    files = dict.fromkeys(Path(file).expanduser().absolute() for file in (named, defined) if file.endswith(".py"))
    return "\n".join(file.read_text("utf-8", "replace") for file in files if file.is_file())


def _says_where(written: str) -> str:
    place, _, name = written.rpartition(":")
    if not place or not name.isidentifier():
        raise ValueError(f"{written!r} is not written module:name or path/to/file.py:name")
    return written


Where = Annotated[str, AfterValidator(_says_where)]
"""Where an option says that something of Python is."""


class _MissingError(Exception):
    """There is no such file or module."""


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise _MissingError(f"no such file (looked in {path.absolute().parent})")
    digest = hashlib.blake2b(str(path.absolute()).encode(), digest_size=6).hexdigest()
    loader = SourceFileLoader(f"outrider_function_{digest}", str(path))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickling look for it there
    loader.exec_module(module)
    return module


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module is there, but one of its imports is not
        raise _MissingError(
            f"no module {error.name!r} is installed; a file is named by its path, ./{name}.py"
        ) from None
