"""Human-readable output of a run: progress, results, curves, trackers, and single rollouts."""
