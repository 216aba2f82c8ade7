"""Stores states: the visited set, in memory and on disk, and the levels."""
