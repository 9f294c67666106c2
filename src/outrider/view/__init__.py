"""A local, read-only web application over runs: every rollout, a problem through training, a group as a tree."""
