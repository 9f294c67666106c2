"""Training: the loop, its processes, its checkpoints and what it leaves on disk."""
