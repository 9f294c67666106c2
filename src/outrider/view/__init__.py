"""A local, read-only web application that shows rollouts, the history of each problem, and groups drawn as trees."""
