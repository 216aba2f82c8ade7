"""TLC's model configuration files (`.cfg`): reading them, and binding them to a protocol."""
