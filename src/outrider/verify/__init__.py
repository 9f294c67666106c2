"""Verifiers, which return a verdict on a response to a problem, within limits of time and memory."""
