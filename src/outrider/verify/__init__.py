"""Verification: from a problem and a response to a verdict, within bounds of time and memory."""
