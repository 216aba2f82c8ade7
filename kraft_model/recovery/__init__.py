"""KIP-704: leaders that are elected uncleanly recover the partition before anyone is served.

A controller, brokers with one partition, and a client. Source: KIP-704, "Send a hint to the partition leader to recover
the partition" (KAFKA-13587). What the KIP leaves open is as in Kafka: KIP-497 for the ISR, KIP-101 and KIP-279 for
truncation, KIP-392 for followers that serve consumers, KIP-841 for replicas that may not join the ISR. The docstring of
an action names its section; `docs/coverage.md` lists the statements one by one, `docs/findings.md` where they disagree.

Left out are broker epochs, reassignment, transactions (recovering is one step) and the contents of answers to clients.

=============  =======================================================================================================
module         what is in it
=============  =======================================================================================================
`records`      symbols (modes, errors), metadata records, messages, what each process knows
`base`         pure rules: changes of a partition and their records, ends of logs, the high watermark; constants and
               bounds, the network (LoseMessage), `Init`; who is served, and when a value is acknowledged
`controller`   FenceBroker, UnfenceBroker, ElectUncleanly, RefuseAlterPartition, AcceptAlterPartition,
               ChangeController
`brokers`      ApplyMetadata, HandleLeaderAndIsr, Recover, ReportRecovered, ExpandIsr, ShrinkIsr,
               ResendAlterPartition, SendInvalidAlterPartition, HandleAlterPartitionResponse, Crash, Restart,
               BreakConnection
`exchanges`    SendRequest, HandleResponse, GiveUp; of brokers RefuseClient, ServeClient, AppendProduced;
               AskForEpochEnd, AnswerEpochEnd, Truncate, FetchFromLeader, NoteFetch, AnswerFetch, AppendFetched
`properties`   invariants and step invariants; temporal properties, and what is fair
`contracts`    step properties: what the controller decides, what brokers and leaders make of it, how clients and
               replicas ask and are answered
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


# The bases stand in reverse: actions are listed from the last base to the first.
class Recovery(RecoveryContracts, RecoveryProperties, RecoveryExchanges, RecoveryBrokers, RecoveryController):
    """KIP-704: a leader that is elected uncleanly recovers before anyone is served."""


__all__ = ["Recovery"]
