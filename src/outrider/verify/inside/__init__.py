"""The code inside the sandbox. A new process runs it for every verdict, so it imports only fast modules of the standard
library."""
