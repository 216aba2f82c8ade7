"""KRaft with pre-votes and reconfiguration: the TLA+ specification kraft_kip_996, action by action.

Source: kraft_kip_996.tla and its modules in repository Vanlightly/kafka-tlaplus, folder kraft/kip_996, which is about
KIP-996 (pre-vote) and KIP-853 (reconfiguration). Each action follows the specification's action of the same name.
Where the specification surprises, the surprise is kept and listed in `docs/conformance.md`.

==============  ======================================================================================================
module          what is in it
==============  ======================================================================================================
`records`       log entries, messages, a server's state, the shared state
`log`           pure rules about configurations in logs
`transitions`   pure rules: the transitions of a server's state
`base`          constants, the network, `Init`
`liveness`      conditions that hold actions back with TestLiveness TRUE
`disturbances`  ChangeNetworkConnectivity, RestartWithState, CrashLoseState
`timeouts`      CheckQuorumResign, VoterFetchTimeout, VoterElectionTimeout, ResignedElectionTimeout
`elections`     HandleVoteRequest, HandleVoteResponse, ConcludePreVote, BecomeLeader
`leader`        ResendBeginQuorumEpochRequest, HandleClientRequest, RejectFetchRequest, DivergingFetchRequest,
                AcceptFetchRequest; the high watermark
`followers`     AcceptBeginQuorumRequest, SendFetchRequest, HandleFetchResponse
`membership`    StartNewServer, AcceptAddVoterRequest, AcceptRemoveVoterRequest
`temporal`      the specification's temporal properties and its fairness
`properties`    the invariants
`contracts`     how a server answers each message, and what it makes of it
`own_steps`     what each step must be that a server takes by itself
`variants`      seeded faults
`configurations`  bounded configurations (TOML)
==============  ======================================================================================================
"""

from __future__ import annotations

from kraftcheck.kraft_model.prevote.contracts import PrevoteContracts
from kraftcheck.kraft_model.prevote.disturbances import PrevoteDisturbances
from kraftcheck.kraft_model.prevote.elections import PrevoteElections
from kraftcheck.kraft_model.prevote.followers import PrevoteFollowers
from kraftcheck.kraft_model.prevote.leader import PrevoteLeader
from kraftcheck.kraft_model.prevote.membership import PrevoteMembership
from kraftcheck.kraft_model.prevote.own_steps import PrevoteOwnSteps
from kraftcheck.kraft_model.prevote.properties import PrevoteProperties
from kraftcheck.kraft_model.prevote.temporal import PrevoteTemporal


# The bases stand in reverse: actions are listed from the last base to the first.
class Prevote(
    PrevoteOwnSteps,
    PrevoteContracts,
    PrevoteProperties,
    PrevoteTemporal,
    PrevoteMembership,
    PrevoteFollowers,
    PrevoteLeader,
    PrevoteElections,
    PrevoteDisturbances,
):
    """KRaft with pre-votes, one-at-a-time reconfiguration, and connections that are cut."""


__all__ = ["Prevote"]
