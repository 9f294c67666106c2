"""Python functions that correspond to the commands of the command line. :mod:`outrider` exports them."""
