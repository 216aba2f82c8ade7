"""Unregistering controllers: who is a member of the cluster, and which feature levels its members support.

Controllers, one of them active, brokers, and an operator with the command line tools. Source: the KIP "Support
unregistering controllers" (KAFKA-20395), still being voted on in the text that is modelled here. What it leaves open is
as in Kafka: KIP-919 (a controller registers itself), KIP-631 (brokers), KIP-853 (the voter set), KIP-584 (features).
The docstring of an action names its section; `docs/coverage.md` lists the statements one by one, `docs/findings.md`
where they disagree with each other and with what Kafka then adopted.

Of KRaft the model keeps a log with a committed part, and an active controller, which leaves office when it is removed.
Its successor may lack what was not committed. `quorum` is the model of KRaft itself.

============  ========================================================================================================
module        what is in it
============  ========================================================================================================
`records`     symbols (errors, tools), metadata records, messages, what each node and the operator know
`base`        pure rules: what metadata records add up to, who can read them, majorities; constants and bounds, the
              network, `Init`; images of the log, voters and members
`active`      RefuseNotController, HandleRegistration, HandleUnregisterController, HandleUnregisterBroker,
              HandleRemoveVoter, HandleUpdateFeatures, Commit, Resign, ElectActive
`nodes`       ApplyRecord, FailOnRecord, Register, HandleRegistrationResponse, Stop, Restart, ComeBack, Replace
`tools`       RunUnregisterController, RunUnregisterBroker, RunRemoveController, RunUpgrade, HandleResponse, TimeOut,
              ChangeConfiguration
`properties`  the invariants; temporal properties, and what is fair
`contracts`   step properties: how requests are answered, what answers lead to, what nodes do by themselves
`variants`    other readings, a rejected alternative, and seeded faults
`configurations`  bounded configurations (TOML)
============  ========================================================================================================
"""

from __future__ import annotations

from kraftcheck.kraft_model.registration.active import RegistrationActiveController
from kraftcheck.kraft_model.registration.contracts import RegistrationContracts
from kraftcheck.kraft_model.registration.nodes import RegistrationNodes
from kraftcheck.kraft_model.registration.properties import RegistrationProperties
from kraftcheck.kraft_model.registration.tools import RegistrationTools


# The bases stand in reverse: actions are listed from the last base to the first.
class Registration(
    RegistrationContracts, RegistrationProperties, RegistrationTools, RegistrationNodes, RegistrationActiveController
):
    """Unregistering controllers (KAFKA-20395): members, voters and finalized feature levels."""


__all__ = ["Registration"]
