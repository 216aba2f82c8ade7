"""Variants of `Quorum`: seeded faults, other readings of the KIPs, and design changes."""

from __future__ import annotations

import kraftcheck.kraft_model.quorum.variants.designs
import kraftcheck.kraft_model.quorum.variants.faults
import kraftcheck.kraft_model.quorum.variants.readings  # noqa: F401 - their classes are variants
