"""Analyses that run the model: exact entropies, gradient norms, interventions."""
