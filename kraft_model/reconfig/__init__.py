"""KRaft with reconfiguration: the TLA+ specification KRaftWithReconfig, action by action.

Source: KRaftWithReconfig.tla and MessagePassing.tla in repository Vanlightly/raft-tlaplus, which KIP-853 refers to.
Each action follows the specification's action of the same name. Where the specification surprises, the surprise is
kept and listed in `docs/conformance.md`; what was meant is a variant.

=============  =======================================================================================================
module         what is in it
=============  =======================================================================================================
`records`      identities, log entries, messages, a server's state, the shared state
`log`          pure rules: last epoch, truncation, configurations in a log, majorities
`transitions`  pure rules: how a server's state changes when it hears of an epoch or a leader
`base`         constants and bounds, the network, `Init`
`restarts`     RestartWithState, RestartWithoutState
`elections`    RequestVote, HandleRequestVoteRequest, HandleRequestVoteResponse, BecomeLeader
`leader`       ClientRequest, RejectFetchRequest, DivergingFetchRequest, AcceptFetchRequestFromVoter,
               AcceptFetchRequestFromObserver; the high watermark
`followers`    AcceptBeginQuorumRequest, SendFetchRequest, HandleSuccessFetchResponse, HandleDivergingFetchResponse,
               HandleNonSuccessFetchResponse
`membership`   StartNewServer, SendJoinRequest, AcceptJoinRequest, RejectJoinRequest, HandleRejectJoinResponse,
               HandleRemoveRequest
`properties`   the specification's invariants
`liveness`     the specification's temporal properties
`details`      more invariants, which mutants asked for
`contracts`    how a server answers each message, and what it makes of it
`own_steps`    what each step must be that a server takes by itself
`starts`       named starts for INIT, besides `Init`
`variants`     a correction, and seeded faults
`configurations`  bounded configurations (TOML)
=============  =======================================================================================================
"""

from __future__ import annotations

from kraftcheck.kraft_model.reconfig.contracts import ReconfigContracts
from kraftcheck.kraft_model.reconfig.details import ReconfigDetails
from kraftcheck.kraft_model.reconfig.elections import ReconfigElections
from kraftcheck.kraft_model.reconfig.followers import ReconfigFollowers
from kraftcheck.kraft_model.reconfig.leader import ReconfigLeader
from kraftcheck.kraft_model.reconfig.liveness import ReconfigLiveness
from kraftcheck.kraft_model.reconfig.membership import ReconfigMembership
from kraftcheck.kraft_model.reconfig.own_steps import ReconfigOwnSteps
from kraftcheck.kraft_model.reconfig.properties import ReconfigProperties
from kraftcheck.kraft_model.reconfig.restarts import ReconfigRestarts
from kraftcheck.kraft_model.reconfig.starts import ReconfigStarts


# The bases stand in reverse: actions are listed from the last base to the first.
class Reconfig(
    ReconfigOwnSteps,
    ReconfigContracts,
    ReconfigDetails,
    ReconfigProperties,
    ReconfigLiveness,
    ReconfigMembership,
    ReconfigFollowers,
    ReconfigLeader,
    ReconfigElections,
    ReconfigRestarts,
    ReconfigStarts,
):
    """KRaft with one-at-a-time reconfiguration and composite server identity."""


__all__ = ["Reconfig"]
