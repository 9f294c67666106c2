"""What a command does: a function for each, which the command line and Python call."""
