"""KIP-704: recovery of a partition after an unclean leader election, before any client is served.

A controller, brokers with one partition, and a client. Source: KIP-704, "Send a hint to the partition leader to recover
the partition" (KAFKA-13587). Where the KIP leaves a question open, the model follows Kafka: KIP-497 for the ISR,
KIP-101 and KIP-279 for truncation, KIP-392 for followers that serve consumers, KIP-841 for ineligible replicas. The
docstring of an action names its section. `docs/coverage.md` lists the statements, `docs/findings.md` contradictions.

The model omits broker epochs, reassignment, transactions (recovery is one step) and the contents of client responses.

=============  =======================================================================================================
module         content
=============  =======================================================================================================
`records`      symbols (modes, errors), metadata records, messages, the state of each process
`base`         pure rules: changes of a partition and their records, ends of logs, the high watermark; constants and
               bounds, the network (LoseMessage), `Init`; serving and acknowledgements
`controller`   FenceBroker, UnfenceBroker, ElectUncleanly, RefuseAlterPartition, AcceptAlterPartition,
               ChangeController
`brokers`      ApplyMetadata, HandleLeaderAndIsr, Recover, ReportRecovered, ExpandIsr, ShrinkIsr,
               ResendAlterPartition, SendInvalidAlterPartition, HandleAlterPartitionResponse, Crash, Restart,
               BreakConnection
`exchanges`    SendRequest, HandleResponse, GiveUp; of brokers RefuseClient, ServeClient, AppendProduced;
               AskForEpochEnd, AnswerEpochEnd, Truncate, FetchFromLeader, NoteFetch, AnswerFetch, AppendFetched
`properties`   invariants and step invariants; temporal properties and fairness
`contracts`    step properties: decisions of the controller, their effects on brokers, requests and responses of
               clients and replicas
`variants`     other readings of the KIP, and seeded faults
`configurations`  bounded configurations (TOML)
=============  =======================================================================================================
"""

from __future__ import annotations

from kraftcheck.kraft_model.recovery.brokers import RecoveryBrokers
from kraftcheck.kraft_model.recovery.contracts import RecoveryContracts
from kraftcheck.kraft_model.recovery.controller import RecoveryController
from kraftcheck.kraft_model.recovery.exchanges import RecoveryExchanges
from kraftcheck.kraft_model.recovery.properties import RecoveryProperties


# The bases are in reverse order: actions are listed from the last base to the first.
class Recovery(RecoveryContracts, RecoveryProperties, RecoveryExchanges, RecoveryBrokers, RecoveryController):
    """Recovery of a partition after an unclean leader election, before any client is served (KIP-704)."""


__all__ = ["Recovery"]
