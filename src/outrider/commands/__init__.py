"""The functions behind Outrider's commands, which the command line and the Python API call."""
