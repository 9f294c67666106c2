"""Reads rollouts that other frameworks wrote into one plain table."""

from outrider.importers.read import FORMATS, Imported, detect, read

__all__ = ["FORMATS", "Imported", "detect", "read"]
