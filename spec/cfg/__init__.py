"""TLC's model configuration files (`.cfg`): parsing, and binding to a protocol."""
