"""Exploration: which rollouts to sample, how many, from which prefix, in which context. NumPy only."""

from outrider.explore.stage import Stage
from outrider.explore.uniform import Uniform
from outrider.explore.view import Engine, View

STAGES: dict[str, type[Stage]] = {"uniform": Uniform}

__all__ = ["STAGES", "Engine", "Stage", "Uniform", "View"]
