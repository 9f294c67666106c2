"""The functions that implement Outrider's commands. Both the command line and the Python API call these functions."""
