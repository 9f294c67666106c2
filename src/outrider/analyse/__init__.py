"""Analyses that run a model on rollouts: exact entropies, gradient norms and interventions."""
