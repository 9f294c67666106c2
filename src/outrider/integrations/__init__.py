"""Outrider's parts inside other trainers. Each module imports its trainer when it is used, not before."""
