"""Checkpoints of breadth-first searches of the table engine."""
