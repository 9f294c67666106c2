"""The chapters of a report, one file each: ``section(run)`` answers one question, and is None without data."""
