"""Sampling: rollouts for requests, with token ids in both directions."""
