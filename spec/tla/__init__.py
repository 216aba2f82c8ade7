"""TLA+ values as text, and protocol states as TLA+ variables."""
