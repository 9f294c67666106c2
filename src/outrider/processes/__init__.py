"""The processes of a run: ranks, launcher, clock, devices, and a stop that all ranks make together."""
