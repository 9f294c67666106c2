"""Verifiers, which check a response to a problem and return a verdict, with limits on time and memory."""
