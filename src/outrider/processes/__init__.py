"""The processes of a run: ranks, launcher, clock, devices and coordinated stop."""
