"""KRaft with pre-votes and reconfiguration: the TLA+ specification kraft_kip_996, action by action.

Source: kraft_kip_996.tla and its modules in repository Vanlightly/kafka-tlaplus, folder kraft/kip_996. The
specification covers KIP-996 (pre-vote) and KIP-853 (reconfiguration). Each action follows the specification's action of
the same name. Oddities of the specification are kept, and listed in `docs/conformance.md`.

==============  ======================================================================================================
module          content
==============  ======================================================================================================
`records`       log entries, messages, a server's state, the shared state
`rules`         pure rules: configurations in logs, the transitions of a server's state
`base`          constants, the network, `Init`; liveness conditions on actions with TestLiveness TRUE
`elections`     CheckQuorumResign, VoterFetchTimeout, VoterElectionTimeout, ResignedElectionTimeout,
                HandleVoteRequest, HandleVoteResponse, ConcludePreVote, BecomeLeader
`replication`   ResendBeginQuorumEpochRequest, HandleClientRequest, RejectFetchRequest, DivergingFetchRequest,
                AcceptFetchRequest, the high watermark; AcceptBeginQuorumRequest, SendFetchRequest,
                HandleFetchResponse
`environment`   ChangeNetworkConnectivity, RestartWithState, CrashLoseState, StartNewServer,
                AcceptAddVoterRequest, AcceptRemoveVoterRequest
`properties`    the invariants, the specification's temporal properties and its fairness
`contracts`     responses to messages, effects of messages, and internal steps
`variants`      seeded faults
`configurations`  bounded configurations (TOML)
==============  ======================================================================================================
"""

from __future__ import annotations

from kraftcheck.kraft_model.prevote.contracts import PrevoteContracts
from kraftcheck.kraft_model.prevote.environment import PrevoteDisturbances, PrevoteMembership
from kraftcheck.kraft_model.prevote.properties import PrevoteProperties
from kraftcheck.kraft_model.prevote.replication import PrevoteReplication


# The bases are in reverse order: actions are listed from the last base to the first.
class Prevote(PrevoteContracts, PrevoteProperties, PrevoteMembership, PrevoteReplication, PrevoteDisturbances):
    """KRaft with pre-votes, one-at-a-time reconfiguration, and network partitions (KIP-996, KIP-853)."""


__all__ = ["Prevote"]
