"""Analyses of a run's rollouts with a model: entropies and gradient norms of all tokens, and the effect of replacing a
token."""
