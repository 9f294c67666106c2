"""What a person sees of a run: progress, results, curves, trackers, and single rollouts."""
