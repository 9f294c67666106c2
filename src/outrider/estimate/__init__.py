"""What a configuration will need before it runs: memory, whether it fits, tokens and the calls of a service."""
