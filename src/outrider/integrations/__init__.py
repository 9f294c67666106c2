"""Integrations of Outrider into other trainers. Each module imports its trainer only on first use."""
