"""Verifiers, which check a response to a problem and return a verdict, within limits of time and memory."""
