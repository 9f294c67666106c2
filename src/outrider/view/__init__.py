"""A local, read-only web application for runs: rollouts, the history of a problem, groups as trees."""
