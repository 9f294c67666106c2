"""Outrider: exploration in reinforcement learning with verifiable rewards.

The names below are loaded when they are first used, so that ``import outrider`` imports no PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outrider.api.evaluation import evaluate as evaluate
    from outrider.api.run import Run as Run
    from outrider.api.run import load_run as load_run
    from outrider.api.session import Session as Session
    from outrider.api.training import train as train
    from outrider.config import Recipe as Recipe
    from outrider.config import list_recipes as list_recipes
    from outrider.config import list_settings as list_settings
    from outrider.config import load_recipe as load_recipe
    from outrider.config.component_list import list_components as list_components
    from outrider.credit import Baseline as Baseline
    from outrider.credit import Members as Members
    from outrider.credit import RewardShaper as RewardShaper
    from outrider.credit import Shaper as Shaper
    from outrider.errors import UserError as UserError
    from outrider.explore import Stage as Stage
    from outrider.explore import View as View
    from outrider.objective import Surrogate as Surrogate
    from outrider.record import Group as Group
    from outrider.record import Outcome as Outcome
    from outrider.record import Problem as Problem
    from outrider.record import Rollout as Rollout
    from outrider.record import SampleRequest as SampleRequest
    from outrider.record import Verdict as Verdict
    from outrider.tasks.task import Task as Task
    from outrider.verify.verifier import Verifier as Verifier

__version__ = "0.2.0"

_HOMES = {
    "evaluate": "api.evaluation",
    "Session": "api.session",
    **dict.fromkeys(("Run", "load_run"), "api.run"),
    **dict.fromkeys(("Recipe", "list_recipes", "list_settings", "load_recipe"), "config"),
    "list_components": "config.component_list",
    **dict.fromkeys(("Baseline", "Members", "RewardShaper", "Shaper"), "credit"),
    "UserError": "errors",
    **dict.fromkeys(("Stage", "View"), "explore"),
    "Surrogate": "objective",
    **dict.fromkeys(("Group", "Outcome", "Problem", "Rollout", "SampleRequest", "Verdict"), "record"),
    "Task": "tasks.task",
    "Verifier": "verify.verifier",
}

__all__ = sorted([*_HOMES, "train"])


_OLD = {"Judge": "Verifier"}


def __getattr__(name: str) -> Any:
    if name == "train":  # the room of that name, which can be called (see there)
        return import_module("outrider.train")
    if name in _OLD:
        raise AttributeError(f"outrider.{name} is now outrider.{_OLD[name]}")
    if name not in _HOMES:
        raise AttributeError(f"module 'outrider' has no attribute {name!r}")
    return getattr(import_module(f"outrider.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
