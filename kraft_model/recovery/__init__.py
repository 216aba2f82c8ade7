"""KIP-704: leaders that are elected uncleanly recover the partition before anyone is served.

A controller, brokers with one partition, and a client. Source: KIP-704, "Send a hint to the partition leader to recover
the partition" (KAFKA-13587). What the KIP leaves open is as in Kafka: KIP-497 for the ISR, KIP-101 and KIP-279 for
truncation, KIP-392 for followers that serve consumers, KIP-841 for replicas that may not join the ISR. Every action
says which section it comes from; `docs/coverage.md` has the statements one by one, `docs/findings.md` where they
disagree.

What is not here: broker epochs, reassignment, transactions (what recovering does is a step of its own), and what
answers to clients contain.
"""

from __future__ import annotations

from kraftcheck.kraft_model.recovery.brokers import BrokerActions
from kraftcheck.kraft_model.recovery.clients import ClientActions
from kraftcheck.kraft_model.recovery.controller import ControllerActions
from kraftcheck.kraft_model.recovery.properties import RecoveryProperties
from kraftcheck.kraft_model.recovery.replication import ReplicationActions


class Recovery(RecoveryProperties, ReplicationActions, ClientActions, BrokerActions, ControllerActions):
    """KIP-704: a leader that is elected uncleanly recovers before anyone is served."""

    # Actions come in the order of the bases from last to first.


__all__ = ["Recovery"]
