"""Python functions that do the same as the commands of the command line. :mod:`outrider` exports them."""
