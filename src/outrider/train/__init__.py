"""Training: the loop, its processes, its checkpoints and what it leaves on disk.

``outrider.train(…)`` is the function :func:`outrider.api.training.train`. It has the name of this package, which Python
binds to ``outrider.train`` as soon as a module of it is imported; so the package itself can be called.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _CallableRoom(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        # by name: the function stands above this room, and imports from it
        return import_module("outrider.api.training").train(*arguments, **options)


sys.modules[__name__].__class__ = _CallableRoom
