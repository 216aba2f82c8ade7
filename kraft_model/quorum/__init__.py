"""KRaft as Kafka adopted it: KIP-595, KIP-630 (snapshots), KIP-853 (voter changes) and KIP-996 (pre-vote).

Where these texts disagree, the reference section of a KIP takes precedence over its user story, Kafka's code and the
newer text, in this order. Every other reading is a variant and a finding (`docs/findings.md`). `docs/coverage.md` lists
the statements of the KIPs one by one.

The model omits time (a timeout may expire whenever it runs), addresses (a number stands for a replica's endpoints) and
principals. A fetch returns all remaining batches, or `FetchLimit` of them; a snapshot travels in one message.

=============  =======================================================================================================
module         content
=============  =======================================================================================================
`records`      symbols (modes, errors), replica keys, voters, log records, batches; requests and responses, and the
               message groups; the state of a replica; the shared state, with the history that properties read
`rules`        pure rules: log ends, truncation, replica keys; transitions between modes; restarts
`base`         voter sets of a log, membership, majorities, for a design change to override; epochs, leaders and
               endpoints in messages; constants and bounds, the network (LoseMessage, DuplicateMessage), `Init`;
               steps, fetches, the high watermark; the conditions of TimelyFetches
`elections`    FetchTimeout, ElectionTimeout, PreVoteTimeout, ResignedTimeout, HandleVoteRequest, HandleVoteResponse,
               RepeatBeginQuorumEpoch, HandleBeginQuorumEpochRequest, HandleAcknowledgement, Resign,
               HandleEndQuorumEpochRequest
`replication`  HandleFetchRequest, HandleFetchResponse, FetchFromBootstrapServer, Retry, TakeSnapshot,
               HandleFetchSnapshotRequest, HandleFetchSnapshotResponse
`voters`       AddVoter, HandleAddVoterRequest, HandleApiVersionsRequest, HandleApiVersionsResponse, RemoveVoter,
               HandleRemoveVoterRequest, ExpireOperation, Join, HandleJoinResponse, ReadAnswer, DescribeQuorum,
               SendUpdateVoter, HandleUpdateVoterRequest, HandleUpdateVoterResponse, Upgrade, Downgrade
`environment`  ClientAppend, Restart, RestartLosingUnflushed, Crash, LoseDisk, MoveEndpoint, ChangeSoftware, Cut,
               Heal, CheckQuorum
`properties`   invariants, step invariants and constraints
`contracts/`   step invariants of every message and internal step
`epochs`       states up to the order of their epochs, for elections without end
`liveness`     reachability goals (AG EF); temporal properties and fairness
`starts`       named initial states for INIT, besides `Init`
`variants/`    `faults`: seeded faults; `readings`: other readings of the KIPs; `designs`: design changes;
               `reports`: public reports; `coming`: changes to come; `kafka`: known differences of Kafka;
               `surroundings`: fetches that a leader delays; parts of a server, for walks beside Kafka
`configurations`  bounded configurations (TOML)
=============  =======================================================================================================
"""

from __future__ import annotations

from kraftcheck.kraft_model.quorum.contracts.steps import QuorumContracts
from kraftcheck.kraft_model.quorum.elections import QuorumElections
from kraftcheck.kraft_model.quorum.environment import QuorumEnvironment
from kraftcheck.kraft_model.quorum.liveness import QuorumLiveness
from kraftcheck.kraft_model.quorum.properties import QuorumProperties
from kraftcheck.kraft_model.quorum.replication import QuorumReplication
from kraftcheck.kraft_model.quorum.starts import QuorumScenarios
from kraftcheck.kraft_model.quorum.voters import QuorumVoterChanges


# The bases are in reverse order: actions are listed from the last base to the first.
class Quorum(
    QuorumVoterChanges,
    QuorumEnvironment,
    QuorumElections,
    QuorumReplication,
    QuorumProperties,
    QuorumContracts,
    QuorumLiveness,
    QuorumScenarios,
):
    """A KRaft quorum: elections with pre-vote, replication, snapshots and voter changes."""


__all__ = ["Quorum"]
