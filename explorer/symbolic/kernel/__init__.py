"""Compiled code of the symbolic engine: diagrams in arrays. It knows no protocol, and imports nothing above it."""
