"""The variants of `Quorum`: seeded faults, and other readings of the KIPs."""

from __future__ import annotations

import kraftcheck.kraft_model.quorum.variants.faults
import kraftcheck.kraft_model.quorum.variants.readings  # noqa: F401 - the classes of both are variants
