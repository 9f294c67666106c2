"""Analyses that need the model itself: exact entropies, gradient norms, interventions."""
