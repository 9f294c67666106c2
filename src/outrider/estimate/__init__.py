"""Estimates for a configuration: memory, whether it fits, tokens, time, and the cost of a paid service."""
