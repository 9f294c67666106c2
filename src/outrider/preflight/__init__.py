"""Checks of table, tokenizer and configuration that run before any weights are loaded."""
