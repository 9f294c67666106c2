"""Sampling: samplers take requests with token ids and return rollouts with token ids."""
