"""Checks the task's table, the tokenizer and the configuration before any weights are loaded."""
