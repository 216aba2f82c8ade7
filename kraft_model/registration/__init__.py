"""Unregistering controllers (KIP-1312): cluster membership, and the feature levels that members support.

Controllers, one of them active, brokers, and an operator with the command line tools. Source: KIP-1312, "Support
unregistering controllers" (KAFKA-20395), in its text of the vote. Where it leaves a question open, the model follows
Kafka: KIP-919 (controllers register), KIP-631 (brokers), KIP-853 (the voter set), KIP-584 (features). The docstring of
an action names its section. `docs/coverage.md` lists the statements one by one; `docs/findings.md` has their
contradictions, and later changes by Kafka.

The model reduces KRaft to a log with a committed part, and an active controller, which resigns when it is removed. Its
successor may lack the uncommitted records. `quorum` is the model of KRaft itself.

============  ========================================================================================================
module        content
============  ========================================================================================================
`records`     symbols (errors, tools), metadata records, messages, the state of each node and of the operator
`base`        pure rules: images of metadata records, the level to read them, majorities; constants and bounds, the
              network, `Init`; images of the log, voters and members
`active`      RefuseNotController, HandleRegistration, HandleUnregisterController, HandleUnregisterBroker,
              HandleRemoveVoter, HandleUpdateFeatures, Commit, Resign, ElectActive
`nodes`       ApplyRecord, FailOnRecord, Register, HandleRegistrationResponse, Stop, Restart, ComeBack, Replace
`tools`       RunUnregisterController, RunUnregisterBroker, RunRemoveController, RunUpgrade, HandleResponse, TimeOut,
              ChangeConfiguration
`properties`  invariants, reachability goals; temporal properties and fairness
`contracts`   step properties: responses to requests, effects of responses, the nodes' own steps
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


# The bases are in reverse order: actions are listed from the last base to the first.
class Registration(
    RegistrationContracts, RegistrationProperties, RegistrationTools, RegistrationNodes, RegistrationActiveController
):
    """Unregistering controllers (KIP-1312): members, voters and finalized feature levels."""


__all__ = ["Registration"]
