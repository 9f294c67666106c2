"""The functions behind Outrider's commands, used by the command line and by the Python API."""
