"""The processes of a run: ranks, launcher, clock, devices, and a coordinated stop of all ranks."""
