"""What the command line does, as Python functions: the names of :mod:`outrider`."""
