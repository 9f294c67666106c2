"""Reads the rollout files of other frameworks into one plain table."""

from outrider.importers.read import FORMATS, Imported, detect, read

__all__ = ["FORMATS", "Imported", "detect", "read"]
