"""Variants of `Quorum`: seeded faults, other readings of the KIPs, designs, public reports, and changes to come."""

from __future__ import annotations

import kraftcheck.kraft_model.quorum.variants.coming
import kraftcheck.kraft_model.quorum.variants.controllers
import kraftcheck.kraft_model.quorum.variants.designs
import kraftcheck.kraft_model.quorum.variants.faults
import kraftcheck.kraft_model.quorum.variants.formatting
import kraftcheck.kraft_model.quorum.variants.readings
import kraftcheck.kraft_model.quorum.variants.reports
import kraftcheck.kraft_model.quorum.variants.rolling
import kraftcheck.kraft_model.quorum.variants.surroundings  # noqa: F401 - their classes are variants
