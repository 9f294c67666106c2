"""A local, read-only web application that shows a run's rollouts, the history of each problem, and groups as trees."""
