"""Rollouts for the tools where people read them: Inspect logs, trackio traces, and the plain table as Parquet."""
