"""Calculations of ``benchmarks/studies``, for their tests: with the examples in their docstrings run."""

import doctest
import importlib.util
from pathlib import Path
from types import ModuleType

STUDIES = Path(__file__).parents[2] / "benchmarks" / "studies"


def study_code(name: str) -> ModuleType:
    """A file of the studies that needs no other of them."""
    spec = importlib.util.spec_from_file_location(name, STUDIES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    failed, tried = doctest.testmod(module)
    assert tried
    assert not failed
    return module
