"""Several processes that work as one: ranks, how they are launched, their clock, devices and agreed stop."""
