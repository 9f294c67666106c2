"""Environments, which reply to the policy between the turns of a rollout."""
