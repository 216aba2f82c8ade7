"""Compiled code only."""
