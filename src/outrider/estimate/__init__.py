"""Estimates a run's memory, generated tokens and duration, and its cost on a paid service, from the run's
configuration.
"""
