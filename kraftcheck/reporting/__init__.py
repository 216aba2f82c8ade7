"""Tells people what was found."""
