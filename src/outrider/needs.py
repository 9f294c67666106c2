"""Data that a component needs from the engines, besides rollouts and the log-probabilities of their tokens."""

from __future__ import annotations

from typing import Literal

Need = Literal["entropies", "attention", "branching", "texts"]
"""``entropies``: the entropy of every token's distribution at sampling time. ``attention``: the policy's attention
between segments. ``branching``: the policy's nucleus sizes. ``texts``: the text of every single token."""
Needs = frozenset[Need]
NOTHING: Needs = frozenset()
