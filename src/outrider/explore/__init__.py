"""Exploration: which rollouts to sample, how many, from which prefix, in which context. NumPy only."""

from outrider.explore.stage import Stage
from outrider.explore.uniform import Uniform

STAGES: dict[str, type[Stage]] = {"uniform": Uniform}

__all__ = ["STAGES", "Stage", "Uniform"]
