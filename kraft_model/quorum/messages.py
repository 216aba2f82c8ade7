"""The messages of `quorum`, and the groups of messages that are dropped together.

Sources: the schemas of KIP-595 (Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch), KIP-630 (FetchSnapshot), KIP-853
(AddVoter, RemoveVoter, UpdateVoter, DescribeQuorum) and KIP-996 (PreVote). `of` is the epoch of the request that is
answered: a replica drops answers to requests of its earlier epochs. Kafka does so by resetting its connections
at every transition. `address` is the endpoint to which a request goes; where its receiver does not have that any more
nobody receives it. 0 is the address of a bootstrap server, which the operator keeps. `endpoint` is that of the leader
which a message names, in the schemas of KIP-853; 0 where the sender knows the leader and not the endpoint.
"""

from __future__ import annotations

from kraftcheck.kraft_model.quorum.records import Batch, Error, Key, Mode, Nil, Operation, Position, Voter
from kraftcheck.spec import ModelValue, Record


class VoteRequest(Record, quiet=("address",)):
    """Vote; with `pre_vote` it asks whether a vote would be granted (KIP-996). `voter` is the replica key it is for."""

    epoch: int
    pre_vote: bool
    candidate: Key
    voter: Key
    last_epoch: int
    last_offset: int
    source: ModelValue
    dest: ModelValue
    address: int = 1


class VoteResponse(Record, quiet=("endpoint",)):
    """The answer to Vote; `voter` is the replica key that the request was for."""

    epoch: int
    leader: ModelValue | Nil
    granted: bool
    error: Error
    pre_vote: bool
    voter: Key
    of: int
    source: ModelValue
    dest: ModelValue
    endpoint: int = 1


class BeginQuorumEpochRequest(
    Record,
    quiet=(
        "address",
        "endpoint",
    ),
):
    """A leader tells a voter that it leads."""

    epoch: int
    voter: Key
    source: ModelValue
    dest: ModelValue
    address: int = 1
    endpoint: int = 1


class BeginQuorumEpochResponse(Record, quiet=("endpoint",)):
    """The answer to BeginQuorumEpoch."""

    epoch: int
    leader: ModelValue | Nil
    error: Error
    of: int
    source: ModelValue
    dest: ModelValue
    endpoint: int = 1


class EndQuorumEpochRequest(Record, quiet=("address",)):
    """A leader resigns, and says who should stand for election, the best first."""

    epoch: int
    preferred: tuple[Key, ...]
    source: ModelValue
    dest: ModelValue
    address: int = 1


class EndQuorumEpochResponse(Record, quiet=("endpoint",)):
    """The answer to EndQuorumEpoch."""

    epoch: int
    leader: ModelValue | Nil
    error: Error
    of: int
    source: ModelValue
    dest: ModelValue
    endpoint: int = 1


class FetchRequest(Record, quiet=("address",)):
    """A follower or an observer asks for the batches behind its log end."""

    epoch: int
    offset: int
    last_epoch: int
    directory: int
    source: ModelValue
    dest: ModelValue
    address: int = 1


class FetchResponse(Record, quiet=("endpoint",)):
    """The answer to a fetch: batches, where the logs diverge, the snapshot to load, or an error."""

    epoch: int
    leader: ModelValue | Nil
    error: Error
    high_watermark: int
    records: tuple[Batch, ...]
    diverging: Position | Nil
    snapshot: Position | Nil
    request: FetchRequest
    source: ModelValue
    dest: ModelValue
    endpoint: int = 1


class FetchSnapshotRequest(Record, quiet=("address",)):
    """A replica asks for a snapshot, which travels in one piece (KIP-630)."""

    epoch: int
    snapshot: Position
    directory: int
    source: ModelValue
    dest: ModelValue
    address: int = 1


class FetchSnapshotResponse(Record, quiet=("endpoint",)):
    """The answer: the state up to the snapshot's end offset, or an error."""

    epoch: int
    leader: ModelValue | Nil
    error: Error
    content: tuple[Batch, ...]
    request: FetchSnapshotRequest
    source: ModelValue
    dest: ModelValue
    endpoint: int = 1


class ApiVersionsRequest(Record, quiet=("address",)):
    """The leader asks a new voter which kraft.version it supports (KIP-853, "AddVoter", step 3)."""

    of: int
    source: ModelValue
    dest: ModelValue
    address: int = 1


class ApiVersionsResponse(Record):
    """The highest kraft.version that the replica supports."""

    version: int
    of: int
    source: ModelValue
    dest: ModelValue


class AddVoterRequest(Record, quiet=("address",)):
    """AddVoter of a controller that joins automatically. An administrator's request is a step of its receiver."""

    voter: Voter
    source: ModelValue
    dest: ModelValue
    address: int = 1


class RemoveVoterRequest(Record, quiet=("address",)):
    """RemoveVoter of a controller that joins automatically."""

    voter: Key
    source: ModelValue
    dest: ModelValue
    address: int = 1


class UpdateVoterRequest(Record, quiet=("address",)):
    """A voter tells the leader its endpoint, directory id and supported kraft.version."""

    epoch: int
    voter: Voter
    version: int
    source: ModelValue
    dest: ModelValue
    address: int = 1


class UpdateVoterResponse(Record, quiet=("endpoint",)):
    """The answer to UpdateVoter."""

    epoch: int
    leader: ModelValue | Nil
    error: Error
    request: UpdateVoterRequest
    source: ModelValue
    dest: ModelValue
    endpoint: int = 1


class Answered(Record):
    """History, for properties only: what a change that is answered was about, and what its replica knew then.

    `subject` is the voter or the kraft.version; Nil where nothing was begun. `busy` says whether a leader had to wait.
    """

    subject: Key | int | UpdateVoterRequest | Nil
    mode: Mode
    version: int
    voters: frozenset[Key]
    busy: bool


class AdminResponse(Record):
    """The answer to AddVoter, RemoveVoter or UpdateFeatures, for an administrator or a joining controller.

    With WatchAnswers it has `about`.
    """

    operation: Operation
    error: Error
    source: ModelValue
    dest: ModelValue
    about: Answered | Nil = Nil.NIL


class DescribeQuorumResponse(Record):
    """The answer to DescribeQuorum (KIP-853, "DescribeQuorum"): current and committed voters, and observers."""

    error: Error
    epoch: int
    high_watermark: int
    current: frozenset[Voter]
    committed: frozenset[Voter]
    observers: frozenset[Key]
    source: ModelValue
    dest: ModelValue


LeaderResponse = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | UpdateVoterResponse
)
"""The answers that tell of an epoch and its leader."""

# Groups of messages that are dropped together


class Answers(Record):
    """Group: the answers of one kind under way to a replica."""

    kind: str
    dest: ModelValue


class PreVotes(Record):
    """Group: the pre-vote requests under way from a replica to another."""

    source: ModelValue
    dest: ModelValue


KINDS: dict[type[Record], str] = {
    FetchResponse: "fetch",
    FetchSnapshotResponse: "fetch",
    BeginQuorumEpochResponse: "leader",
    EndQuorumEpochResponse: "leader",
    ApiVersionsResponse: "leader",
    UpdateVoterResponse: "update",
}


def group_of(message: Record) -> Record | None:
    """Return the group that a message belongs to, or None."""
    if isinstance(message, VoteRequest):
        return PreVotes(message.source, message.dest) if message.pre_vote else None
    if isinstance(message, VoteResponse):
        return Answers("pre-vote" if message.pre_vote else "vote", message.dest)
    kind = KINDS.get(type(message))
    return None if kind is None else Answers(kind, message.dest)  # type: ignore[attr-defined]
