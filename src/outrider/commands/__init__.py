"""Functions of the commands, called by the command line and by Python."""
