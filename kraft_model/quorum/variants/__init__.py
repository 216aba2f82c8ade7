"""Variants of `Quorum`: seeded faults, other readings of the KIPs, design changes, and public reports."""

from __future__ import annotations

import kraftcheck.kraft_model.quorum.variants.designs
import kraftcheck.kraft_model.quorum.variants.faults
import kraftcheck.kraft_model.quorum.variants.readings
import kraftcheck.kraft_model.quorum.variants.reports  # noqa: F401 - their classes are variants
