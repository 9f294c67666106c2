"""Outrider: exploration in reinforcement learning with verifiable rewards."""

__version__ = "0.2.0"
