"""The variants of `Quorum`: seeded faults, and other readings of the KIPs."""

from __future__ import annotations

import kraft_model.quorum_faults
import kraft_model.quorum_readings  # noqa: F401 - the classes of both are variants
