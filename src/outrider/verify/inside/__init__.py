"""The code inside the sandbox. A new process runs it for every verdict, so it imports only standard modules that load
quickly."""
