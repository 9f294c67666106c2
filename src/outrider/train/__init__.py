"""Training: the loop and what it leaves on disk. Python binds ``outrider.train`` to this package, so it can be called:
``outrider.train(…)`` is :func:`outrider.api.training.train`."""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _CallableRoom(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        # by name, since the function stands above this room and imports from it
        return import_module("outrider.api.training").train(*arguments, **options)


sys.modules[__name__].__class__ = _CallableRoom
