"""Replay of traces through a protocol, with explanations of divergences."""
