"""Sampling: a sampler receives requests whose prompts are token ids, and returns rollouts whose responses are token
ids."""
