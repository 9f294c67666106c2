"""Reports: a run's rollouts on disk as facts, findings and one page."""
