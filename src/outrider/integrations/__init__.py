"""Integrations that use Outrider in other trainers. Each module imports its trainer only on first use."""
