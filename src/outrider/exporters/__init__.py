"""Exports rollouts as Inspect logs, as trackio traces, or as the plain table in Parquet."""
