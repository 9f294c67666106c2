"""What happened in a run: its rollouts on disk as facts, findings and one page."""
