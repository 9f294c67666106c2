"""The code inside the sandbox. It starts for every verdict, so it imports only fast modules of the standard library."""
