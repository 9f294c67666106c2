"""Output of a run for people: progress, results, curves, trackers, and single rollouts."""
