"""The code inside the sandbox. A new process runs this code for every verdict, so the code imports only standard
modules that load quickly."""
