"""The code inside the sandbox. It starts for every verdict, so it imports only what the standard library loads fast."""
