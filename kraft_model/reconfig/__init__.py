"""KRaft with reconfiguration: the TLA+ specification KRaftWithReconfig, action by action.

Source: KRaftWithReconfig.tla and MessagePassing.tla in repository Vanlightly/raft-tlaplus, which KIP-853 refers to.
Each action follows the specification's action of the same name. Where the specification surprises, the surprise is
kept and listed in `docs/conformance.md`; what was meant is a variant.

=============  =======================================================================================================
module         what is in it
=============  =======================================================================================================
`records`      identities, log entries, messages, a server's state, the shared state
`rules`        pure rules: last epoch, truncation, configurations in a log, majorities; how a server's state changes
               when it hears of an epoch or a leader
`base`         constants and bounds, the network, `Init`, named starts for INIT
`elections`    RestartWithState, RestartWithoutState, RequestVote, HandleRequestVoteRequest,
               HandleRequestVoteResponse, BecomeLeader
`replication`  ClientRequest, RejectFetchRequest, DivergingFetchRequest, AcceptFetchRequestFromVoter,
               AcceptFetchRequestFromObserver, the high watermark; AcceptBeginQuorumRequest, SendFetchRequest,
               HandleSuccessFetchResponse, HandleDivergingFetchResponse, HandleNonSuccessFetchResponse
`membership`   StartNewServer, SendJoinRequest, AcceptJoinRequest, RejectJoinRequest, HandleRejectJoinResponse,
               HandleRemoveRequest
`properties`   the specification's invariants and temporal properties; more invariants, which mutants asked for
`contracts`    how a server answers each message, what it makes of it, and what it does by itself
`variants`     a correction, and seeded faults
`configurations`  bounded configurations (TOML)
=============  =======================================================================================================
"""

from __future__ import annotations

from kraftcheck.kraft_model.reconfig.base import ReconfigStarts
from kraftcheck.kraft_model.reconfig.contracts import ReconfigContracts
from kraftcheck.kraft_model.reconfig.elections import ReconfigElections
from kraftcheck.kraft_model.reconfig.membership import ReconfigMembership
from kraftcheck.kraft_model.reconfig.properties import ReconfigDetails
from kraftcheck.kraft_model.reconfig.replication import ReconfigReplication


# The bases stand in reverse: actions are listed from the last base to the first.
class Reconfig(
    ReconfigContracts, ReconfigDetails, ReconfigMembership, ReconfigReplication, ReconfigElections, ReconfigStarts
):
    """KRaft with one-at-a-time reconfiguration and composite server identity."""


__all__ = ["Reconfig"]
