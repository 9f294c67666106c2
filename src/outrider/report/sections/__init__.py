"""The sections of a report, one per file. In each file, ``section(run)`` returns the section, or None if there are no
data."""
