"""The chapters of a report, one file each: ``section(run)`` returns the chapter, or None without data."""
