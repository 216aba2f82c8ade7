"""Variants of `Quorum`: other readings of the KIPs, and seeded faults."""
