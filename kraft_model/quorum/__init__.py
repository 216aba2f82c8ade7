"""KRaft as Kafka adopted it: KIP-595, KIP-630 (snapshots), KIP-853 (voter changes) and KIP-996 (pre-vote).

Where these texts disagree, the reference section of a KIP goes before its user story, then comes Kafka's code, then the
newer text; every other reading is a variant (`quorum.variants`) and a finding (`docs/findings.md`).

What is left out: time (a timeout may expire whenever it runs), addresses (a number stands for a replica's endpoints),
principals; several batches in one fetch are as many as the leader has (`FetchLimit`), snapshots travel in one piece.
What is there, statement by statement of the KIPs, is in `docs/coverage.md`.
"""

from __future__ import annotations

from kraftcheck.kraft_model.quorum.elections import Elections
from kraftcheck.kraft_model.quorum.environment import Environment
from kraftcheck.kraft_model.quorum.properties import Properties
from kraftcheck.kraft_model.quorum.replication import Replication
from kraftcheck.kraft_model.quorum.starts import Starts
from kraftcheck.kraft_model.quorum.upgrade import Upgrades


class Quorum(Upgrades, Elections, Replication, Environment, Properties, Starts):
    """A KRaft quorum: elections with pre-vote, replication, snapshots and voter changes."""


__all__ = ["Quorum"]
