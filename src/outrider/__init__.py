"""Outrider: exploration in reinforcement learning with verifiable rewards.

Names are loaded on first use, so that ``import outrider`` does not import PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outrider.api.benching import BenchResult as BenchResult
    from outrider.api.benching import bench as bench
    from outrider.api.evaluation import EvaluationResult as EvaluationResult
    from outrider.api.evaluation import evaluate as evaluate
    from outrider.api.fine_tuning import sft as sft
    from outrider.api.reporting import compare as compare
    from outrider.api.reporting import report as report
    from outrider.api.run import Run as Run
    from outrider.api.run import load_run as load_run
    from outrider.api.scoring import score as score
    from outrider.api.session import Callback as Callback
    from outrider.api.session import Session as Session
    from outrider.api.training import train as train
    from outrider.api.validation import validate as validate
    from outrider.config import Recipe as Recipe
    from outrider.config import list_recipes as list_recipes
    from outrider.config import list_settings as list_settings
    from outrider.config import load_recipe as load_recipe
    from outrider.config.component_list import list_components as list_components
    from outrider.credit import Baseline as Baseline
    from outrider.credit import Members as Members
    from outrider.credit import RewardShaper as RewardShaper
    from outrider.credit import Shaper as Shaper
    from outrider.environments.environment import Environment as Environment
    from outrider.environments.environment import Reply as Reply
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
    "BenchResult": "api.benching",
    **dict.fromkeys(("EvaluationResult", "evaluate"), "api.evaluation"),
    "sft": "api.fine_tuning",
    "compare": "api.reporting",
    **dict.fromkeys(("Callback", "Session"), "api.session"),
    **dict.fromkeys(("Run", "load_run"), "api.run"),
    **dict.fromkeys(("Recipe", "list_recipes", "list_settings", "load_recipe"), "config"),
    "list_components": "config.component_list",
    **dict.fromkeys(("Baseline", "Members", "RewardShaper", "Shaper"), "credit"),
    **dict.fromkeys(("Environment", "Reply"), "environments.environment"),
    "UserError": "errors",
    **dict.fromkeys(("Stage", "View"), "explore"),
    "Surrogate": "objective",
    **dict.fromkeys(("Group", "Outcome", "Problem", "Rollout", "SampleRequest", "Verdict"), "record"),
    "Task": "tasks.task",
    "Verifier": "verify.verifier",
}

_ROOMS = ("bench", "report", "score", "train", "validate")  # callable packages; see outrider.callable_room
__all__ = sorted([*_HOMES, *_ROOMS])


_OLD = {"Judge": "Verifier"}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"outrider.{name}")
    if name in _OLD:
        raise AttributeError(f"outrider.{name} is now outrider.{_OLD[name]}")
    if name not in _HOMES:
        raise AttributeError(f"module 'outrider' has no attribute {name!r}")
    return getattr(import_module(f"outrider.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
