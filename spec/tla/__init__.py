"""TLA+ values as text, and a protocol's states as TLA+ variables."""
