"""A local, read-only web application for rollouts, the history of each problem, and groups drawn as trees."""
