"""Sampling: requests in, rollouts out. Token ids both ways."""
