"""The chapters of a report, one file each: ``section(run)`` asks a run one question, and is None without an answer."""
