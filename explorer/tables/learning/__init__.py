"""Memoization of a protocol's handlers and values as integer tables."""
