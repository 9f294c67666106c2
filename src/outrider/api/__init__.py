"""Python functions for the commands of the command line; :mod:`outrider` exports them."""
