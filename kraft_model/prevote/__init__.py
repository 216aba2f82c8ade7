"""KRaft with pre-votes and reconfiguration: the TLA+ specification kraft_kip_996, action by action.

Source: kraft_kip_996.tla and its modules in repository Vanlightly/kafka-tlaplus, folder kraft/kip_996, which is about
KIP-996 (pre-vote) and KIP-853 (reconfiguration). Each action follows the specification's action of the same name.
Where the specification surprises, the surprise is kept and listed in `docs/conformance.md`.

==============  ======================================================================================================
module          what is in it
==============  ======================================================================================================
`records`       log entries, messages, a server's state, the shared state
`rules`         pure rules: configurations in logs, the transitions of a server's state
`base`          constants, the network, `Init`; conditions that hold actions back with TestLiveness TRUE
`elections`     CheckQuorumResign, VoterFetchTimeout, VoterElectionTimeout, ResignedElectionTimeout,
                HandleVoteRequest, HandleVoteResponse, ConcludePreVote, BecomeLeader
`replication`   ResendBeginQuorumEpochRequest, HandleClientRequest, RejectFetchRequest, DivergingFetchRequest,
                AcceptFetchRequest, the high watermark; AcceptBeginQuorumRequest, SendFetchRequest,
                HandleFetchResponse
`environment`   ChangeNetworkConnectivity, RestartWithState, CrashLoseState, StartNewServer,
                AcceptAddVoterRequest, AcceptRemoveVoterRequest
`properties`    the invariants, the specification's temporal properties and its fairness
`contracts`     how a server answers each message, what it makes of it, and what it does by itself
`variants`      seeded faults
`configurations`  bounded configurations (TOML)
==============  ======================================================================================================
"""

from __future__ import annotations

from kraftcheck.kraft_model.prevote.contracts import PrevoteContracts
from kraftcheck.kraft_model.prevote.environment import PrevoteDisturbances, PrevoteMembership
from kraftcheck.kraft_model.prevote.properties import PrevoteProperties
from kraftcheck.kraft_model.prevote.replication import PrevoteReplication


# The bases stand in reverse: actions are listed from the last base to the first.
class Prevote(PrevoteContracts, PrevoteProperties, PrevoteMembership, PrevoteReplication, PrevoteDisturbances):
    """KRaft with pre-votes, one-at-a-time reconfiguration, and connections that are cut."""


__all__ = ["Prevote"]
