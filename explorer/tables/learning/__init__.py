"""Learns a protocol as integer tables."""
