"""Analyses that run the model: exact entropies, gradient norms and interventions."""
