"""Compares whole state spaces with TLC's."""
