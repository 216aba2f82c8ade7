"""Protocols written as their TLA+ modules are, with what the table engine finds hard; they are for benchmarks."""
