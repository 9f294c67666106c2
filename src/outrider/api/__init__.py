"""The commands of the command line as Python functions, exported by :mod:`outrider`."""
