"""Exports rollouts as Inspect logs, as trackio traces, or as a plain table in a Parquet file."""
