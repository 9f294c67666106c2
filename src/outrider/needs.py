"""The kinds of data that a component of a recipe (such as a loss) can request from the sampler or learner, besides
rollouts and log-probabilities."""

from __future__ import annotations

from typing import Literal

Need = Literal["entropies", "attention", "branching", "texts"]
"""``entropies``: the entropy of the distribution from which each token was sampled. ``attention``: the policy's
attention between segments of a response. ``branching``: the number of tokens in the policy's nucleus (top-p set) at
each position. ``texts``: the text of each token."""
Needs = frozenset[Need]
NOTHING: Needs = frozenset()
