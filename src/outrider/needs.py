"""What a component of a recipe asks of the engines, beside rollouts and the log-probabilities of their tokens."""

from __future__ import annotations

from typing import Literal

Need = Literal["entropies", "attention", "branching", "texts"]
"""``entropies``: of every token's distribution as it was drawn. ``attention``: the policy's, between segments.
``branching``: the policy's nucleus sizes. ``texts``: of every token by itself."""
Needs = frozenset[Need]
NOTHING: Needs = frozenset()
