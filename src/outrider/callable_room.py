"""Makes a subpackage callable if the Python API has a function of the same name, such as ``outrider.bench``.

When a subpackage is imported, Python makes it an attribute of its package. The subpackage then hides the function of
the same name in :mod:`outrider`. This module therefore makes the subpackage callable: a call of the subpackage calls
the function.
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
    def __doc__(self) -> str | None:  # type: ignore[override]  # the module's own docstring describes its file
        return inspect.getdoc(_function(self.__name__))

    @property
    def __signature__(self) -> inspect.Signature:  # for help, completion and tools
        return inspect.signature(_function(self.__name__), eval_str=False)


def make_callable(room: str, module: str, function: str) -> None:
    """Make the subpackage ``room`` callable, so that a call of the subpackage calls ``function``.

    Args:
        module: name of the module that defines the function. The module is imported only at the first call, to avoid a
            circular import.
    """
    _FUNCTIONS[room] = module, function
    sys.modules[room].__class__ = _CallableRoom


def _function(room: str) -> Any:
    module, function = _FUNCTIONS[room]
    return getattr(import_module(module), function)
