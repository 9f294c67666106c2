"""Estimates of a run's memory, generated tokens, time, and cost on a paid service, from its configuration."""
