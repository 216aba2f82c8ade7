"""Contracts of replication: Fetch and FetchSnapshot with their answers (KIP-595, KIP-630, KIP-853)."""

from __future__ import annotations

from kraftcheck.kraft_model.quorum.contracts.elections import ElectionContracts, place_of_leader
from kraftcheck.kraft_model.quorum.contracts.rules import (
    UNNAMED,
    committed_end,
    end_of_epoch,
    heard,
    is_same,
    is_silent,
    last_voters_end,
    role,
    seats,
    sent,
    shown,
    takes_role,
    version_of,
)
from kraftcheck.kraft_model.quorum.messages import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    UpdateVoterRequest,
)
from kraftcheck.kraft_model.quorum.records import ENDED, Batch, Error, Key, Mode, Nil, Operation, Position, Voters
from kraftcheck.kraft_model.quorum.state import Change, Replica
from kraftcheck.spec import Step, step_invariant


class ReplicationContracts(ElectionContracts):
    """How fetches are served, and what becomes of the answers."""

    def leaders_error(self, me: Replica, request: FetchRequest | FetchSnapshotRequest | UpdateVoterRequest) -> Error:
        """Return the error of a request that only the leader of its epoch serves (KIP-595, KIP-630, KIP-853)."""
        if self.comes_from_elsewhere(me, request.source):
            return Error.INCONSISTENT_CLUSTER_ID
        if request.epoch != me.epoch:
            return Error.FENCED_LEADER_EPOCH if request.epoch < me.epoch else Error.UNKNOWN_LEADER_EPOCH
        return Error.NONE if me.mode is Mode.LEADER else Error.NOT_LEADER_OR_FOLLOWER

    # Fetch

    @step_invariant
    def fetches_are_answered(self, before: Replica, after: Replica, message: FetchRequest, step: Step) -> bool:
        """A leader answers a fetch once: with what follows, where the logs part, or the snapshot to load.

        KIP-595, "Fetch", Request Handling; KIP-630, "Fetch", for the snapshot. The high watermark comes with each of
        these; an error comes alone.
        """
        error = self.leaders_error(before, message)
        records: tuple[Batch, ...] = ()
        parts: Position | Nil = Nil.NIL
        snapshot: Position | Nil = Nil.NIL
        if error is Error.NONE and needs_snapshot(before, message):
            snapshot = Position(before.start, before.log[before.start - 1].epoch)
        elif error is Error.NONE and not is_held(before, message):
            parts = Position(*end_of_epoch(before.log, message.last_epoch))
        elif error is Error.NONE:
            most = self.fetch_limit or len(before.log)
            records = before.log[message.offset :][:most]
        hides = error is Error.INCONSISTENT_CLUSTER_ID
        epoch, leader, place = UNNAMED if hides else (before.epoch, before.leader, place_of_leader(before))
        known = shown(after) if error is Error.NONE else 0
        answer = FetchResponse(
            epoch, leader, error, known, records, parts, snapshot, message, before.id, message.source, place
        )
        return sent(step, FetchResponse) == [answer]

    @step_invariant
    def fetches_are_noted(self, before: Replica, after: Replica, message: FetchRequest, step: Step) -> bool:
        """A leader notes the log end of whoever fetches, by replica key, if its own log holds that; else nothing.

        KIP-853, "Fetch"; KIP-595, "Fetch". It may then commit, leave office, and append the voter set with the new
        voter that has caught up (KIP-853, "AddVoter", steps 5 and 6), and no other record.
        """
        is_noted = self.leaders_error(before, message) is Error.NONE
        if not is_noted or needs_snapshot(before, message) or not is_held(before, message):
            return after == before and len(step.sent) == 1
        key = Key(message.source, message.directory)
        key = next((voter.key for voter in before.voters if is_same(voter.key, key)), key)
        noted = before.but(offsets=before.offsets.put(key, message.offset))
        noted = noted.but(high_watermark=committed_end(noted))
        if leaves(before, noted):
            return (after.mode, after.high_watermark) == (Mode.RESIGNED, noted.high_watermark)
        change = before.change
        if not isinstance(change, Change):
            return after == noted
        if 0 < change.offset <= noted.high_watermark:
            return after == noted.but(change=Nil.NIL)
        return after == with_new_voter(noted)

    @step_invariant
    def fetched_is_stored(self, before: Replica, after: Replica, message: FetchResponse, step: Step) -> bool:
        """A follower stores what it fetched, truncates, or asks for a snapshot, and hears what is committed.

        KIP-595, "Fetch", Response Handling; KIP-630. Only the answer that it waits for counts. It fails where it would
        go below its high watermark, and stops where its software does not know a record (KIP-853). Brokers do not flush
        what they fetch (KAFKA-10533).
        """
        if before.pending != message.request:
            return is_silent(before, after, step)
        free = before.but(pending=Nil.NIL)
        expected, is_over = heard(free, message)
        if is_over or expected.mode in ENDED:
            return asks_next(before, after, step) and takes_role(free, after.but(pending=Nil.NIL), expected)
        if expected.mode is not Mode.FOLLOWER:
            return after.mode is Mode.FAILED
        if isinstance(message.snapshot, Position):
            place = expected.endpoint
            request = FetchSnapshotRequest(
                expected.epoch, message.snapshot, before.directory, before.id, message.source, place
            )
            kept = (after.log, after.high_watermark) == (before.log, before.high_watermark)
            return step.sent == (request,) and kept and after.pending == request and after.fetched
        log = before.log + message.records
        known = min(message.high_watermark, len(log)) or before.high_watermark
        if isinstance(message.diverging, Position):
            log, known = parted(before.log, message.diverging), before.high_watermark
        if version_of(log, before.version) > before.software:
            return after.mode is Mode.DOWN
        if known < before.high_watermark or len(log) < before.high_watermark:
            return after.mode is Mode.FAILED
        stored = (after.log, after.high_watermark, after.start, after.fetched) == (log, known, before.start, True)
        flushed = after.flushed == (min(before.flushed, len(log)) if before.id in self.brokers else len(log))
        return stored and flushed and role(after) == expected and asks_next(before, after, step)

    # FetchSnapshot

    @step_invariant
    def snapshots_are_sent(self, before: Replica, after: Replica, message: FetchSnapshotRequest, step: Step) -> bool:
        """A leader answers FetchSnapshot once, with the snapshot that it has, or an error; nothing else changes.

        KIP-630, "FetchSnapshot", Request Handling; KIP-853, "FetchSnapshot".
        """
        error = self.leaders_error(before, message)
        if error is Error.NONE and message.snapshot.offset != before.start:
            error = Error.SNAPSHOT_NOT_FOUND
        content = before.log[: before.start] if error is Error.NONE else ()
        hides = error is Error.INCONSISTENT_CLUSTER_ID
        epoch, leader, place = UNNAMED if hides else (before.epoch, before.leader, place_of_leader(before))
        answer = FetchSnapshotResponse(epoch, leader, error, content, message, before.id, message.source, place)
        return after == before and step.sent == (answer,)

    @step_invariant
    def snapshots_are_loaded(self, before: Replica, after: Replica, message: FetchSnapshotResponse, step: Step) -> bool:
        """A follower replaces its log by the snapshot that it waits for, which is committed, and fetches what follows.

        KIP-630, "FetchSnapshot", Response Handling. After an error it fetches again.
        """
        if before.pending != message.request:
            return is_silent(before, after, step)
        free = before.but(pending=Nil.NIL)
        expected, is_over = heard(free, message)
        if is_over or expected.mode is not Mode.FOLLOWER or message.error is not Error.NONE:
            return asks_next(before, after, step) and takes_role(free, after.but(pending=Nil.NIL), expected)
        if version_of(message.content, before.version) > before.software:
            return after.mode is Mode.DOWN
        size = len(message.content)
        loaded = (after.log, after.start, after.flushed, after.fetched) == (message.content, size, size, True)
        known = after.high_watermark == max(size, before.high_watermark)
        return loaded and known and role(after) == expected and asks_next(before, after, step)


def needs_snapshot(me: Replica, request: FetchRequest) -> bool:
    """Whether a leader's log begins behind what a replica asks for, or behind its last epoch (KIP-630, "Fetch")."""
    if me.start == 0:
        return False
    first = me.log[me.start - 1].epoch
    return (
        request.offset < me.start
        or request.last_epoch < first
        or (request.offset == me.start and request.last_epoch > first)
    )


def is_held(me: Replica, request: FetchRequest) -> bool:
    """Whether a leader's log has the last batch of a replica's log, where that has it (KIP-595, "Fetch")."""
    if request.offset == 0:
        return request.last_epoch == 0
    return request.offset <= len(me.log) and me.log[request.offset - 1].epoch == request.last_epoch


def parted(log: tuple[Batch, ...], leaders: Position) -> tuple[Batch, ...]:
    """Return the part of a log that can agree with the leader's, whose epoch ends there (KIP-595, "Fetch")."""
    kept = [
        batch.epoch < leaders.epoch or (batch.epoch == leaders.epoch and place < leaders.offset)
        for place, batch in enumerate(log)
    ]
    return log[: sum(kept)]


def leaves(before: Replica, after: Replica) -> bool:
    """Whether a leader has committed a voter set without itself (KIP-853, "RemoveVoter", step 7)."""
    return not seats(before) and last_voters_end(before.log) <= after.high_watermark


def with_new_voter(me: Replica) -> Replica:
    """Return a leader with the voter set that has the new voter, once that is checked and has the leader's log.

    KIP-853, "AddVoter", steps 4 to 6.
    """
    change = me.change
    if not isinstance(change, Change) or change.operation is not Operation.ADD_VOTER or isinstance(change.voter, Nil):
        return me
    has_all = me.offsets.get(change.voter.key, -1) == len(me.log)
    if not change.checked or change.offset or not has_all:
        return me
    voters = me.voters | {change.voter}
    log = (*me.log, Batch(me.epoch, (Voters(voters),)))
    return me.but(log=log, flushed=len(log), voters=voters, change=change.but(offset=len(log)))


def asks_next(before: Replica, after: Replica, step: Step) -> bool:
    """Whether a follower's next request is under way, the one that it waits for, and no other (KIP-595, "Fetch")."""
    requests = [m for m in step.sent if isinstance(m, FetchRequest | FetchSnapshotRequest)]
    if after.mode is not Mode.FOLLOWER:
        return not requests
    leader = after.leader
    assert not isinstance(leader, Nil)
    last = after.log[-1].epoch if after.log else 0
    place = after.leader_endpoint
    fetch = FetchRequest(after.epoch, len(after.log), last, after.directory, after.id, leader, place)
    return requests == [fetch] and after.pending == fetch


__all__ = ["ReplicationContracts", "with_new_voter"]
