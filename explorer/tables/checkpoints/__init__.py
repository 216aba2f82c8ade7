"""Saves and restores searches."""
