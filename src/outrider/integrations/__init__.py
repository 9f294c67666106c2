"""Integrations of Outrider into other trainers. Each module imports its trainer on first use, not before."""
