"""Estimated needs of a configuration: memory, fit, tokens and calls of a service."""
