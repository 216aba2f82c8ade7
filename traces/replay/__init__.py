"""Replays traces through a protocol."""
