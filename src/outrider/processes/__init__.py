"""The processes of a run: ranks, launch, clock, devices and coordinated stop."""
