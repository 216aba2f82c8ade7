"""JIT compilation, its cache, and array groups that compiled code shares with Python."""
