"""Environments: what answers a policy between the turns of a rollout."""
