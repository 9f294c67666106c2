"""Environments, which reply to the policy after each turn of a rollout."""
