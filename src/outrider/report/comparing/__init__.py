"""The sections of a comparison of runs: one file each, a function of the runs as they are compared."""
