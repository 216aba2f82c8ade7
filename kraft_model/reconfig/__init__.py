"""KRaft with reconfiguration: the TLA+ specification KRaftWithReconfig, action by action.

Source: KRaftWithReconfig.tla and MessagePassing.tla in repository Vanlightly/raft-tlaplus, which KIP-853 refers to.
Each action follows the specification's action of the same name. Oddities of the specification are kept, and listed in
`docs/conformance.md`; a variant has the intended behaviour.

=============  =======================================================================================================
module         content
=============  =======================================================================================================
`records`      identities, log entries, messages, a server's state, the shared state
`rules`        pure rules: last epoch, truncation, configurations in a log, majorities; the transitions of a
               server's state
`base`         constants and bounds, the network, `Init`, named starts for INIT
`elections`    RestartWithState, RestartWithoutState, RequestVote, HandleRequestVoteRequest,
               HandleRequestVoteResponse, BecomeLeader
`replication`  ClientRequest, RejectFetchRequest, DivergingFetchRequest, AcceptFetchRequestFromVoter,
               AcceptFetchRequestFromObserver, the high watermark; AcceptBeginQuorumRequest, SendFetchRequest,
               HandleSuccessFetchResponse, HandleDivergingFetchResponse, HandleNonSuccessFetchResponse
`membership`   StartNewServer, SendJoinRequest, AcceptJoinRequest, RejectJoinRequest, HandleRejectJoinResponse,
               HandleRemoveRequest
`properties`   the specification's invariants and temporal properties; more invariants, from mutation testing
`contracts`    responses to messages, effects of messages, and internal steps
`variants`     a correction, and seeded faults
`configurations`  bounded configurations (TOML)
=============  =======================================================================================================
"""

from __future__ import annotations

from kraftcheck.kraft_model.reconfig.base import ReconfigScenarios
from kraftcheck.kraft_model.reconfig.contracts import ReconfigContracts
from kraftcheck.kraft_model.reconfig.elections import ReconfigElections
from kraftcheck.kraft_model.reconfig.membership import ReconfigMembership
from kraftcheck.kraft_model.reconfig.properties import ReconfigDetails
from kraftcheck.kraft_model.reconfig.replication import ReconfigReplication


# The bases are in reverse order: actions are listed from the last base to the first.
class Reconfig(
    ReconfigContracts, ReconfigDetails, ReconfigMembership, ReconfigReplication, ReconfigElections, ReconfigScenarios
):
    """KRaft with one-at-a-time reconfiguration and composite server identity (KIP-853)."""


__all__ = ["Reconfig"]
