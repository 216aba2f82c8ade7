"""Contracts of `quorum`: what each message and each step of a replica's own must do, in the words of the KIPs.

They are step properties over the acting replica. `rules` tells what they need of the KIPs once more, so that a slip in
the model does not change its judge.
"""

from __future__ import annotations

from kraftcheck.kraft_model.quorum.contracts.processes import ProcessContracts


class QuorumContracts(ProcessContracts):
    """All contracts."""


__all__ = ["QuorumContracts"]
