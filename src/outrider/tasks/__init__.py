"""Tasks: sources of problems with verdicts."""
