"""Python functions with the same effects as the commands of the command line, exported by :mod:`outrider`."""
