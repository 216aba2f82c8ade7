"""Protocols for benchmarks, close to their TLA+ modules: shared messages, and reads of other nodes."""
