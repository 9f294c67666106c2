"""The commands as functions, for the command line and for Python."""
