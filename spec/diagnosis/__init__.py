"""Explanations of disabled actions and violated properties, and lint warnings."""
