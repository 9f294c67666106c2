"""Checks the task's problems, the tokenizer and the configuration before any weights are loaded."""
