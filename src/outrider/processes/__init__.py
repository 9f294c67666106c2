"""The processes of a run: ranks, launcher, clock, devices, and the coordinated stop of all ranks."""
