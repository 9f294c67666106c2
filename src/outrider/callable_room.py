"""Rooms that share their name with a function of Python's door: ``outrider.bench`` is both.

Python binds the name of a subpackage in its package, where :mod:`outrider` offers a function of that name. Such a room
can be called.
"""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_FUNCTIONS: dict[str, tuple[str, str]] = {}


class _CallableRoom(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return _function(self.__name__)(*arguments, **options)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]  # the room's own is for who reads its file
        return inspect.getdoc(_function(self.__name__))

    @property
    def __signature__(self) -> inspect.Signature:  # for help, completion and tools
        return inspect.signature(_function(self.__name__), eval_str=False)


def make_callable(room: str, module: str, function: str) -> None:
    """Calling the package ``room`` calls a function.

    Args:
        module: of the function; imported at the first call, since it stands above the room and imports from it.
    """
    _FUNCTIONS[room] = module, function
    sys.modules[room].__class__ = _CallableRoom


def _function(room: str) -> Any:
    module, function = _FUNCTIONS[room]
    return getattr(import_module(module), function)
