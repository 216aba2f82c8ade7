"""The rules of the KIPs on replicas, logs and responses, restated for the contracts alone.

No action calls these functions: a mistake in an action's rule leaves the contract that checks it intact.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple, TypeVar

from kraftcheck.kraft_model.quorum.records import (
    ADMIN,
    AdminResponse,
    ApiVersionsRequest,
    Batch,
    Change,
    Error,
    FetchRequest,
    FetchSnapshotRequest,
    Key,
    KRaftVersion,
    LeaderResponse,
    LogRecord,
    Mode,
    Nil,
    Operation,
    Position,
    Replica,
    UpdateVoterRequest,
    Voter,
    VoteResponse,
    Voters,
)
from kraftcheck.spec import ModelValue, Record, Step

MessageT = TypeVar("MessageT", bound=Record)

STALE_LEADER_ERRORS = (Error.FENCED_LEADER_EPOCH, Error.NOT_LEADER_OR_FOLLOWER)
ERRORS_LEFT_TO_HANDLERS = (Error.NONE, Error.UNSUPPORTED_VERSION, Error.SNAPSHOT_NOT_FOUND)

# Replica keys and voters


def is_same_replica(voter: Key, key: Key) -> bool:
    """Whether `key` is the replica key of a voter; a voter's directory id 0 matches any (KIP-853, "Key terms")."""
    return voter.id == key.id and (voter.directory == key.directory or voter.directory == 0)


def own_voter_key_as_set(me: Replica) -> frozenset[Key]:
    """Return the set that contains a replica's own voter key; empty for an observer."""
    return frozenset(voter.key for voter in me.voters if is_same_replica(voter.key, me.key))


def voter_keys(me: Replica) -> frozenset[Key]:
    return frozenset(voter.key for voter in me.voters)


def are_fields_empty(me: Replica, *names: str) -> bool:
    """Whether every field of a replica in `names` is empty or FALSE."""
    return not any(getattr(me, name) for name in names)


def endpoints_of_other_voters(me: Replica) -> dict[Key, int]:
    """Return the other voters, with their endpoints."""
    return {voter.key: voter.endpoint for voter in me.voters if not is_same_replica(voter.key, me.key)}


def endpoint_of_voter_id(me: Replica, host: ModelValue | Nil) -> int:
    """Return the endpoint of a replica id in the voter set; 0 if the voter set lacks the id."""
    found = {voter.key: voter.endpoint for voter in me.voters if voter.key.id == host}
    return found[min(found, key=lambda key: key.directory)] if found else 0


def has_majority(group: Collection[Key], voters: Collection[Voter]) -> bool:
    return len([voter for voter in voters if voter.key in group]) > len(voters) / 2


# Logs


def last_epoch_and_end_offset(log: tuple[Batch, ...]) -> tuple[int, int]:
    """Return a log's last epoch and end offset, in the order in which Vote compares logs (KIP-595, "Vote")."""
    return (log[-1].epoch, len(log)) if log else (0, 0)


def end_offset_and_last_epoch_up_to(log: tuple[Batch, ...], epoch: int) -> tuple[int, int]:
    """Return the end offset of the batches up to an epoch, and the last epoch among them (KIP-595, "Fetch")."""
    count = sum(batch.epoch <= epoch for batch in log)
    return count, log[count - 1].epoch if count else 0


def records_in_log(log: tuple[Batch, ...]) -> list[LogRecord]:
    return [record for batch in log for record in batch.records]


def voters_in_log(log: tuple[Batch, ...], formatted: frozenset[Voter]) -> frozenset[Voter]:
    return next((one.voters for one in reversed(records_in_log(log)) if isinstance(one, Voters)), formatted)


def kraft_version_in_log(log: tuple[Batch, ...], formatted: int) -> int:
    return next((one.version for one in reversed(records_in_log(log)) if isinstance(one, KRaftVersion)), formatted)


def is_batch_of_own_epoch(me: Replica, offset: int) -> bool:
    """Whether the batch that ends at an offset is of the leader's own epoch."""
    return offset > 0 and me.log[offset - 1].epoch >= me.epoch


def advertised_high_watermark(me: Replica) -> int:
    """Return the high watermark that a leader advertises: 0 before a batch of its epoch is committed (KIP-595)."""
    return me.high_watermark if is_batch_of_own_epoch(me, me.high_watermark) else 0


def log_ends_of_voters(me: Replica) -> list[int]:
    """Return the log end offset of each voter as known to a leader, in descending order (KIP-853)."""
    known = {voter.key: me.offsets.get(voter.key, 0) for voter in me.voters}
    return sorted((len(me.log) if is_same_replica(key, me.key) else end for key, end in known.items()), reverse=True)


def high_watermark_by_majority(me: Replica) -> int:
    """Return the offset that a majority of a leader's voters holds, if it covers a batch of its own epoch.

    Else, or if that offset is lower, return the current high watermark.
    """
    ends = log_ends_of_voters(me)
    most = ends[len(ends) // 2] if ends else 0
    return max(me.high_watermark, most) if is_batch_of_own_epoch(me, most) else me.high_watermark


def last_voters_record_end(log: tuple[Batch, ...]) -> int:
    """Return the end offset of the last batch with a VotersRecord; 0 if no batch has one."""
    found = [place for place, batch in enumerate(log, start=1) if any(isinstance(r, Voters) for r in batch.records)]
    return found[-1] if found else 0


def must_defer_change(me: Replica) -> bool:
    """Whether a leader has a pending operation, or no committed batch of its epoch (KIP-853)."""
    return isinstance(me.change, Change) or not is_batch_of_own_epoch(me, me.high_watermark)


def has_uncommitted_voters(me: Replica) -> bool:
    """Whether the last VotersRecord of a log is uncommitted (KIP-853, "AddVoter", step 1)."""
    return last_voters_record_end(me.log) > me.high_watermark


# Messages


def sent_messages_of_type(step: Step, kind: type[MessageT]) -> list[MessageT]:
    return [message for message in step.sent if isinstance(message, kind)]


def neither_changes_nor_sends(before: Replica, after: Replica, step: Step) -> bool:
    """Whether a step changes nothing and sends nothing."""
    return after == before and not step.sent


# Learning of an epoch or a leader


class EpochState(NamedTuple):
    """Mode, epoch and leader of a replica, with the leader's endpoint, as a message may change them."""

    mode: Mode
    epoch: int
    leader: ModelValue | Nil
    endpoint: int


def epoch_state(me: Replica) -> EpochState:
    return EpochState(me.mode, me.epoch, me.leader, me.leader_endpoint)


def epoch_state_after_message(me: Replica, leader: ModelValue | Nil, epoch: int, endpoint: int) -> EpochState:
    """Return the epoch state of a replica after it learns of an epoch (KIP-595, "Leader Election and Discovery").

    A newer epoch is entered, an older one ignored. A message is illegal if it names the replica itself although it does
    not lead, or another leader of its epoch. A leader without an endpoint is illegal too.
    """
    if epoch < me.epoch:
        return epoch_state(me)
    if names_impossible_leader(me, leader, epoch):
        return failed_epoch_state(me)
    if leader == Nil.NIL:
        return epoch_state(me) if epoch == me.epoch else EpochState(Mode.UNATTACHED, epoch, Nil.NIL, 1)
    place = endpoint if endpoint > 0 else endpoint_of_voter_id(me, leader)
    if epoch == me.epoch and me.leader == leader and (me.leader_endpoint > 0 or place == 0):
        return epoch_state(me)
    return follower_epoch_state(me, leader, epoch, place)


def names_impossible_leader(me: Replica, leader: ModelValue | Nil, epoch: int) -> bool:
    """Whether a message names a second leader for the epoch, or names the receiver, which does not lead."""
    is_other = epoch == me.epoch and leader != me.leader and Nil.NIL not in (leader, me.leader)
    return is_other or (leader == me.id and me.mode is not Mode.LEADER)


def follower_epoch_state(me: Replica, leader: ModelValue, epoch: int, endpoint: int) -> EpochState:
    """Return the epoch state of a follower of `leader`; it fails if no endpoint is known, or if it is the leader."""
    place = endpoint if endpoint > 0 else endpoint_of_voter_id(me, leader)
    return failed_epoch_state(me) if place == 0 or leader == me.id else EpochState(Mode.FOLLOWER, epoch, leader, place)


def failed_epoch_state(me: Replica) -> EpochState:
    """Return the epoch state of a replica whose process ends on an illegal message."""
    return EpochState(Mode.FAILED, me.epoch, me.leader, 1)


def response_epoch_state_and_whether_handled(me: Replica, response: LeaderResponse) -> tuple[EpochState, bool]:
    """Return the epoch state after a response's common fields, and whether the receiver ignores the rest (KIP-595)."""
    error, leader, epoch, endpoint = response.error, response.leader, response.epoch, response.endpoint
    if epoch < me.epoch or error is Error.UNKNOWN_LEADER_EPOCH:
        return epoch_state(me), True
    if epoch > me.epoch or error in STALE_LEADER_ERRORS:
        return epoch_state_after_message(me, leader, epoch, endpoint), True
    ends = error not in ERRORS_LEFT_TO_HANDLERS
    if not isinstance(leader, Nil) and isinstance(me.leader, Nil):
        return follower_epoch_state(me, leader, epoch, endpoint), ends
    return (failed_epoch_state(me), True) if error is Error.INVALID_REQUEST else (epoch_state(me), ends)


def enters_or_stays_in_epoch_state(before: Replica, after: Replica, expected: EpochState) -> bool:
    """Whether a replica enters the epoch state `expected`, or is already in it and does not change at all."""
    return epoch_state(after) == expected and (epoch_state(before) != expected or after == before)


def reach_each_expected_voter_once(messages: Iterable[Record], expected: dict[Key, int]) -> bool:
    """Whether the messages go to the expected voters, one each, at their endpoints in the voter set."""
    places = sorted((str(m.dest), m.address) for m in messages)  # type: ignore[attr-defined]
    return places == sorted((str(key.id), endpoint) for key, endpoint in expected.items())


# Steps of a replica


def counts_grant_or_wins(before: Replica, after: Replica, message: VoteResponse, step: Step) -> bool:
    """Whether a replica counts a granted vote; with a majority of grants, it becomes candidate or leader."""
    granted = before.granted | {message.voter}
    if has_majority(granted, before.voters):
        return (
            becomes_candidate(before, after) if message.pre_vote else becomes_leader_or_restarts_resigned(before, after)
        )
    return after == before.but(granted=granted) and not step.sent


def counts_refusal_or_gives_up(before: Replica, after: Replica, message: VoteResponse, step: Step) -> bool:
    """Whether a replica counts a rejection, or gives up a pre-vote round that it can no longer win."""
    rejected = before.rejected | {message.voter}
    if message.pre_vote and not has_majority(voter_keys(before) - rejected, before.voters):
        return gives_up_pre_vote(before, after)
    return after == before.but(rejected=rejected) and not step.sent


def expected_leader_fields_of_response(me: Replica, error: Error) -> tuple[int, ModelValue | Nil, int]:
    """Return the epoch, leader and endpoint that a response carries; an error of version or cluster carries none."""
    if error in (Error.UNSUPPORTED_VERSION, Error.INCONSISTENT_CLUSTER_ID):
        return 0, Nil.NIL, 1
    return me.epoch, me.leader, me.endpoint if me.leader == me.id else me.leader_endpoint


def becomes_candidate(before: Replica, after: Replica) -> bool:
    """Whether a replica becomes candidate of the next epoch and votes for itself; a sole voter wins (KIP-595)."""
    if after.epoch != before.epoch + 1:
        return False
    if len(after.voters) == 1:
        return becomes_leader_or_restarts_resigned(before.but(epoch=after.epoch), after)
    own: Key = after.key
    expected = Mode.CANDIDATE, Nil.NIL, own, own_voter_key_as_set(before)
    return (after.mode, after.leader, after.voted, after.granted) == expected


def becomes_leader_or_restarts_resigned(before: Replica, after: Replica) -> bool:
    """Whether a replica becomes leader of its epoch, or fails after persisting its election and restarts resigned."""
    if (after.epoch, after.leader) == (before.epoch, before.id):
        return after.mode in (Mode.LEADER, Mode.RESIGNED)
    return len(before.voters) == 1 and after.mode is Mode.UNATTACHED and after.epoch == before.epoch


def gives_up_pre_vote(before: Replica, after: Replica) -> bool:
    """Whether a replica that lost its pre-vote round follows its reachable known leader, or else is unattached."""
    reaches = not isinstance(before.leader, Nil) and before.leader != before.id and before.leader_endpoint > 0
    mode = Mode.FOLLOWER if reaches else Mode.UNATTACHED
    return (after.mode, after.epoch, after.leader, after.voted) == (mode, before.epoch, before.leader, before.voted)


def needs_snapshot(me: Replica, request: FetchRequest) -> bool:
    """Whether a fetch position precedes the start of a leader's log, or diverges there (KIP-630, "Fetch")."""
    if me.start == 0:
        return False
    first = me.log[me.start - 1].epoch
    return (
        request.offset < me.start
        or request.last_epoch < first
        or (request.offset == me.start and request.last_epoch > first)
    )


def holds_fetch_position(me: Replica, request: FetchRequest) -> bool:
    """Whether a leader's log contains the last batch of the fetching replica's log (KIP-595, "Fetch")."""
    if request.offset == 0:
        return request.last_epoch == 0
    return request.offset <= len(me.log) and me.log[request.offset - 1].epoch == request.last_epoch


def prefix_before_divergence(log: tuple[Batch, ...], leaders: Position) -> tuple[Batch, ...]:
    """Return the longest prefix of a log consistent with the leader's diverging epoch and offset (KIP-595, "Fetch")."""
    kept = [
        batch.epoch < leaders.epoch or (batch.epoch == leaders.epoch and place < leaders.offset)
        for place, batch in enumerate(log)
    ]
    return log[: sum(kept)]


def has_committed_own_removal(before: Replica, after: Replica) -> bool:
    """Whether a leader has committed a voter set that does not contain it (KIP-853, "RemoveVoter", step 7)."""
    return not own_voter_key_as_set(before) and last_voters_record_end(before.log) <= after.high_watermark


def with_caught_up_voter_appended(me: Replica) -> Replica:
    """Return a leader that has appended a caught-up new voter, else unchanged (KIP-853, "AddVoter", steps 4 to 6)."""
    change = me.change
    if not isinstance(change, Change) or change.operation is not Operation.ADD_VOTER or isinstance(change.voter, Nil):
        return me
    has_all = me.offsets.get(change.voter.key, -1) == len(me.log)
    if not change.checked or change.offset or not has_all:
        return me
    voters = me.voters | {change.voter}
    log = (*me.log, Batch(me.epoch, (Voters(voters),)))
    return me.but(log=log, flushed=len(log), voters=voters, change=change.but(offset=len(log)))


def sends_next_fetch(before: Replica, after: Replica, step: Step) -> bool:
    """Whether a follower sends exactly its next fetch, and has it pending (KIP-595, "Fetch")."""
    requests = [m for m in step.sent if isinstance(m, FetchRequest | FetchSnapshotRequest)]
    if after.mode is not Mode.FOLLOWER:
        return not requests
    leader = after.leader
    assert not isinstance(leader, Nil)
    last = after.log[-1].epoch if after.log else 0
    place = after.leader_endpoint
    fetch = FetchRequest(after.epoch, len(after.log), last, after.directory, after.id, leader, place)
    return requests == [fetch] and after.pending == fetch


def voter_change_error(me: Replica) -> Error | None:
    """Return the error with which a replica now rejects any AddVoter or RemoveVoter, or None (KIP-853)."""
    if me.mode is not Mode.LEADER:
        return Error.NOT_LEADER_OR_FOLLOWER
    if not must_defer_change(me) and me.version == 0:
        return Error.UNSUPPORTED_VERSION
    busy = must_defer_change(me) or has_uncommitted_voters(me)
    return Error.REQUEST_TIMED_OUT if busy else None


def add_voter_error(me: Replica, voter: Voter) -> Error | None:
    """Return the error of AddVoter (KIP-853, "AddVoter"): a replica id can be a voter only once."""
    is_voter = any(known.key.id == voter.key.id for known in me.voters)
    return voter_change_error(me) or (Error.DUPLICATE_VOTER if is_voter else None)


def remove_voter_error(me: Replica, key: Key) -> Error | None:
    """Return the error of RemoveVoter (KIP-853, "RemoveVoter")."""
    if voter_change_error(me) is not None:
        return voter_change_error(me)
    if all(known.key != key for known in me.voters):
        return Error.VOTER_NOT_FOUND
    return Error.INVALID_REQUEST if len(me.voters) < 2 else None


def update_voter_error(me: Replica, version: int, *, is_known: bool) -> Error:
    """Return the error of UpdateVoter at the leader of its epoch (KIP-853, "UpdateVoter", steps 1 to 4)."""
    if must_defer_change(me) or has_uncommitted_voters(me):
        return Error.REQUEST_TIMED_OUT
    if version < me.version:
        return Error.INVALID_UPDATE
    return Error.NONE if is_known else Error.VOTER_NOT_FOUND


def update_features_error(old_brokers: bool, me: Replica, version: int) -> Error | None:
    """Return the error of UpdateFeatures for a kraft.version; NONE if it is already in use (KIP-853)."""
    if me.mode is not Mode.LEADER:
        return Error.NOT_LEADER_OR_FOLLOWER
    if must_defer_change(me) or has_uncommitted_voters(me):
        return Error.REQUEST_TIMED_OUT
    if version == me.version:
        return Error.NONE
    supported = not old_brokers and len(voters_known_to_support_version_1(me)) == len(me.voters)
    return None if version > me.version and supported else Error.INVALID_UPDATE_VERSION


def with_appended_voters(me: Replica, voters: frozenset[Voter], change: Change, *first: LogRecord) -> Replica:
    """Return a leader with an appended VotersRecord, in use at once (KIP-853, "VotersRecord")."""
    log = (*me.log, Batch(me.epoch, (*first, Voters(voters))))
    version = kraft_version_in_log(log, me.version)
    return me.but(log=log, flushed=len(log), voters=voters, version=version, change=change.but(offset=len(log)))


def with_advanced_high_watermark(me: Replica) -> Replica:
    """Return a leader after it commits the offset of a majority; a change that this commits is no longer pending."""
    known = high_watermark_by_majority(me)
    change = me.change
    over = isinstance(change, Change) and 0 < change.offset <= known
    return me.but(high_watermark=known, change=Nil.NIL if over else change)


def begins_voter_change(before: Replica, after: Replica, wanted: Voter | Key, client: ModelValue, step: Step) -> bool:
    """Whether a leader starts to add or remove a voter; AddVoter sends ApiVersions first (KIP-853, step 3)."""
    if isinstance(wanted, Voter):
        change = Change(Operation.ADD_VOTER, wanted, False, 0, client, wanted.key)
        question = ApiVersionsRequest(before.epoch, before.id, wanted.key.id, wanted.endpoint)
        return after == before.but(change=change) and step.sent == (question,)
    rest = frozenset(voter for voter in before.voters if voter.key != wanted)
    expected = with_appended_voters(before, rest, Change(Operation.REMOVE_VOTER, Nil.NIL, True, 0, client, wanted))
    if after.mode is Mode.RESIGNED:
        return high_watermark_by_majority(expected) >= len(expected.log) == len(after.log)
    return after == with_advanced_high_watermark(expected)


def begins_admin_change(before: Replica, after: Replica, operation: Operation, step: Step) -> bool:
    """Whether a leader starts the voter change that an administrator requests, and no error applies to that change."""
    change = after.change
    if operation is Operation.ADD_VOTER:
        wanted = change.voter if isinstance(change, Change) else Nil.NIL
        is_due = isinstance(wanted, Voter) and add_voter_error(before, wanted) is None
        return is_due and isinstance(wanted, Voter) and begins_voter_change(before, after, wanted, ADMIN, step)
    gone = {voter.key for voter in before.voters - after.voters}
    return len(gone) == 1 and all(
        remove_voter_error(before, key) is None and begins_voter_change(before, after, key, ADMIN, step) for key in gone
    )


def sent_messages_without_history(step: Step) -> list[Record]:
    """Return the messages that a step sends, without the history field `about` of responses."""
    return [one.but(about=Nil.NIL) if isinstance(one, AdminResponse) else one for one in step.sent]


def supporting_voters_after_update(me: Replica, request: UpdateVoterRequest) -> frozenset[Voter]:
    """Return the voters that a leader knows to support kraft.version 1 once it has received an UpdateVoter."""
    others = frozenset(voter for voter in me.heard if voter.key.id != request.source)
    return others | {request.voter} if request.version > 0 else others


def voters_known_to_support_version_1(me: Replica) -> frozenset[Voter]:
    """Return the voters known to support kraft.version 1, the leader included (KIP-853)."""
    known = {*me.heard, *([Voter(me.key, me.endpoint)] if me.software == 1 else [])}
    return frozenset(one for one in known if any(is_same_replica(voter.key, one.key) for voter in me.voters))


def begins_kraft_version_upgrade(old_brokers: bool, before: Replica, after: Replica) -> bool:
    """Whether a leader appends kraft.version 1 and the voters in one batch (KIP-853, "UpdateFeatures")."""
    if update_features_error(old_brokers, before, 1) is not None:
        return False
    known = {Key(voter.key.id, 0): voter.key for voter in voters_known_to_support_version_1(before)}
    offsets = {known.get(key, key): place for key, place in before.offsets.items()}
    change = Change(Operation.UPDATE_FEATURES, Nil.NIL, True, 0, ADMIN, 1)
    expected = with_appended_voters(before, voters_known_to_support_version_1(before), change, KRaftVersion(1))
    expected = expected.but(offsets=type(before.offsets)(offsets))
    return after == with_advanced_high_watermark(expected)
