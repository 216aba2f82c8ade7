"""Unregistering controllers: who is a member of the cluster, and which feature levels its members support.

Controllers, one of them active, brokers, and an operator with the command line tools. Source: the KIP "Support
unregistering controllers" (KAFKA-20395), still being voted on in the text that is modelled here. What it leaves open is
as in Kafka: KIP-919 (a controller registers itself), KIP-631 (brokers), KIP-853 (the voter set), KIP-584 (features).
Every action says which section it comes from; `docs/coverage.md` has the statements one by one, `docs/findings.md`
where they disagree, with each other and with what Kafka then adopted.

KRaft is what it must be for that and no more: a log with a committed part, an active controller that may be another one
tomorrow and may then lack what was not committed. `quorum` is the model of KRaft itself.
"""

from __future__ import annotations

from kraftcheck.kraft_model.registration.active import ActiveControllerActions
from kraftcheck.kraft_model.registration.nodes import NodeActions
from kraftcheck.kraft_model.registration.properties import RegistrationProperties
from kraftcheck.kraft_model.registration.tools import ToolActions


class Registration(RegistrationProperties, ToolActions, NodeActions, ActiveControllerActions):
    """Unregistering controllers (KAFKA-20395): members, voters and finalized feature levels."""

    # Actions come in the order of the bases from last to first.


__all__ = ["Registration"]
