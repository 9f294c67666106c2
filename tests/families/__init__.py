"""Families of causal language models in tiny random shapes, and what Outrider makes of each: docs/models.md."""
