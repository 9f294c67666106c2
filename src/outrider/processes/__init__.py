"""The processes of a run, with ranks, launcher, clock, devices, and a coordinated stop of all ranks."""
