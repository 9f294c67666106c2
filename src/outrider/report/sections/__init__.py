"""The sections of a report, one per file. In each file, ``section(run)`` returns the section, or None without data."""
