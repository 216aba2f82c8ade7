"""The variants of `Quorum`: seeded faults, and other readings of the KIPs."""

from __future__ import annotations

import kraft_model.quorum_faults  # noqa: F401 - its classes are variants
