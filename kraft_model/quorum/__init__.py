"""KRaft as Kafka adopted it: KIP-595, KIP-630 (snapshots), KIP-853 (voter changes) and KIP-996 (pre-vote).

Where these texts disagree, the reference section of a KIP goes before its user story, then comes Kafka's code, then the
newer text; every other reading is a variant and a finding (`docs/findings.md`). `docs/coverage.md` lists the statements
of the KIPs one by one.

Left out are time (a timeout may expire whenever it runs), addresses (a number stands for a replica's endpoints) and
principals. A fetch returns as many batches as the leader has, or `FetchLimit`; a snapshot travels in one piece.

=============  =======================================================================================================
module         what is in it
=============  =======================================================================================================
`records`      symbols (modes, errors), replica keys, voters, log records, batches; requests and responses, and the
               groups of messages that are dropped together; what a replica knows; what belongs to nobody, with the
               history that properties read
`rules`        pure rules: log ends, truncation, replica keys; how a replica enters each mode, what a restart leaves
`base`         voter sets in a log, who is a voter, majorities: what a design change overrides in one place; what
               replicas hear of epochs, leaders and their endpoints, and where they fail; constants and bounds, the
               network (LoseMessage, DuplicateMessage), `Init`; steps, fetches, the high watermark; whether what a
               timer waits for can still come
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
`properties`   invariants, step invariants and constraints; what administrators and voters are told
`contracts/`   what each message and each step of a replica's own must do
`liveness`     what should stay reachable; temporal properties, and what is fair
`starts`       named starts for INIT, besides `Init`
`variants/`    `faults`: seeded faults; `readings`: other readings of the KIPs; `designs`: design changes; `kafka`:
               what Kafka does otherwise
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
from kraftcheck.kraft_model.quorum.starts import QuorumStarts
from kraftcheck.kraft_model.quorum.voters import QuorumVoterChanges


# The bases stand in reverse: actions are listed from the last base to the first.
class Quorum(
    QuorumVoterChanges,
    QuorumEnvironment,
    QuorumElections,
    QuorumReplication,
    QuorumProperties,
    QuorumContracts,
    QuorumLiveness,
    QuorumStarts,
):
    """A KRaft quorum: elections with pre-vote, replication, snapshots and voter changes."""


__all__ = ["Quorum"]
