"""The functions behind the commands, for the command line and for Python."""
