"""The sections of a report, with one file per section: ``section(run)`` returns the section, or None without data."""
