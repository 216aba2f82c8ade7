"""The compiled code of the table engine: it knows no protocol, and imports nothing of the engine above it."""
