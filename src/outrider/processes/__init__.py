"""The processes of a run (ranks): their start, communication, clock and devices, and the coordinated stop of all
ranks."""
