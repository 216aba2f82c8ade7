"""Replication of `quorum`: Fetch, FetchSnapshot and snapshots (KIP-595, KIP-630, KIP-853)."""

from __future__ import annotations

from kraftcheck.kraft_model.quorum.base import OtherReplicas, QuorumBase
from kraftcheck.kraft_model.quorum.records import (
    ENDED_MODES,
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Key,
    Mode,
    Nil,
    Position,
    Replica,
    Shared,
)
from kraftcheck.kraft_model.quorum.rules import (
    end_offset_for_epoch,
    log_truncated_by_diverging_epoch,
    matches_voter,
    permanently_down_replica,
)
from kraftcheck.spec import ModelValue, Record, Step, Steps, internal, on, ordered


class QuorumReplication(QuorumBase):
    # Serving

    @on(FetchRequest)
    def handle_fetch_request(self, me: Replica, request: FetchRequest, shared: Shared) -> Steps:
        """A leader serves every replica that fetches in its epoch, and records its log end offset (KIP-595, "Fetch").

        A leader that has removed itself still serves, and it serves replicas that it has removed (KIP-853, "Fetch"). If
        the log no longer holds the fetch offset, the response names the snapshot to load (KIP-630, "Fetch").
        """
        if self.is_cut(me, request.source, shared):
            return
        if self.is_foreign(me, request.source):
            refusal = self.fetch_answer(self.without_leader(me), request, Error.INCONSISTENT_CLUSTER_ID)
            yield self.taken(me, me, refusal)
            return
        error = self.epoch_error(me, request.epoch)
        if error is not Error.NONE:
            yield self.taken(me, me, self.fetch_answer(me, request, error))
            return
        if self.needs_snapshot(me, request):
            yield self.taken(me, me, self.fetch_answer(me, request, Error.NONE, snapshot=self.latest_snapshot(me)))
            return
        common = end_offset_for_epoch(me.log, request.last_epoch)
        if not self.is_valid_position(request, common):
            yield self.diverges(me, request, common, shared)
            return
        after = self.note_fetch(me, request)
        after, sends, puts = self.commits(after, shared)
        if after.mode is Mode.LEADER:
            after, more = self.on_fetch(after)
            sends += more
        yield self.taken(me, after, self.served(me, after, request), *sends).put(**puts)

    def needs_snapshot(self, me: Replica, request: FetchRequest) -> bool:
        """Whether the fetch offset precedes the start of the leader's log, or diverges there (KIP-630, "Fetch")."""
        if me.start == 0:
            return False
        epoch = me.log[me.start - 1].epoch
        if request.offset < me.start or request.last_epoch < epoch:
            return True
        return request.offset == me.start and request.last_epoch != epoch

    def latest_snapshot(self, me: Replica) -> Position:
        """Return the id of the snapshot that a fetch response names: its end offset and last epoch."""
        return Position(me.start, me.log[me.start - 1].epoch)

    def holds_snapshot(self, me: Replica, snapshot: Position) -> bool:
        """Whether a leader still holds a snapshot."""
        return snapshot.offset == me.start

    def is_valid_position(self, request: FetchRequest, common: Position) -> bool:
        """Whether the leader's log contains the sender's log end."""
        return request.last_epoch == common.epoch and request.offset <= common.offset

    def diverges(self, me: Replica, request: FetchRequest, common: Position, shared: Shared) -> Step:
        """Return the step in which a leader answers a fetch with a diverging epoch, and does not record its offset."""
        return self.taken(me, me, self.fetch_answer(me, request, Error.NONE, diverging=common))

    def note_fetch(self, me: Replica, request: FetchRequest) -> Replica:
        """Return the leader with the sender's log end offset recorded, by id and directory id (KIP-853, "Fetch")."""
        key = Key(request.source, request.directory)
        voter = next((v.key for v in ordered(me.voters) if self.is_same(v.key, key)), key)
        return me.but(offsets=me.offsets.put(voter, request.offset))

    def is_same(self, voter: Key, key: Key) -> bool:
        """Whether a voter key matches the key of a fetching replica."""
        return matches_voter(voter, key)

    def on_fetch(self, me: Replica) -> tuple[Replica, list[Record]]:
        """Return the leader after it has recorded a fetch, and further messages to send; here unchanged, and none."""
        return me, []

    def fetch_answer(
        self,
        me: Replica,
        request: FetchRequest,
        error: Error,
        *,
        diverging: Position | Nil = Nil.NIL,
        snapshot: Position | Nil = Nil.NIL,
    ) -> FetchResponse:
        """Return a fetch response without records."""
        shown = self.advertised_high_watermark(me) if error is Error.NONE else 0
        return FetchResponse(
            me.epoch, me.leader, error, shown, (), diverging, snapshot, request, me.id, request.source,
            self.endpoint_shown(me),
        )  # fmt: skip

    def served(self, me: Replica, after: Replica, request: FetchRequest) -> FetchResponse:
        """Return a fetch response with the batches from the fetch offset on; `after` is the leader after the fetch."""
        end = len(me.log) if self.fetch_limit == 0 else min(len(me.log), request.offset + self.fetch_limit)
        answer = self.fetch_answer(after, request, Error.NONE)
        return answer.but(records=me.log[request.offset : end])

    # Fetching

    @on(FetchResponse)
    def handle_fetch_response(self, me: Replica, response: FetchResponse, shared: Shared) -> Steps:
        """A replica appends the fetched batches, truncates, requests a snapshot, or learns of another leader.

        KIP-595, "Fetch"; KIP-630 for snapshots. Kafka does not append batches of an epoch above that of the request
        (KAFKA-18723); here a leader has none. A replica fails if its log or high watermark would fall below its high
        watermark, or if the endpoint of the leader found is unknown.
        """
        if self.is_cut(me, response.source, shared):
            return
        if not self.is_expected(me, response):
            yield self.taken(me, me)
            return
        after, done = self.common_response(me.but(pending=Nil.NIL), response)
        if done or after.mode in ENDED_MODES:
            yield self.taken(me, after)
        elif after.mode is not Mode.FOLLOWER:
            yield self.fails(me)
        elif isinstance(response.snapshot, Position):
            request = self.snapshot_request(after, response.snapshot, response.source)
            yield self.taken(me, after.but(pending=request, fetched=True), request)
        else:
            yield self.stored(me, after, response)

    def stored(self, me: Replica, after: Replica, response: FetchResponse) -> Step:
        """Return the step in which a follower truncates, or appends and updates its high watermark."""
        if isinstance(response.diverging, Position):
            after = self.truncate(after, response, response.diverging)
        elif response.records:
            after = self.append(after, response)
        if not self.can_read(after):
            return self.fails_to_read(me)
        after = self.take_high_watermark(after, response)
        return self.taken(me, after.but(fetched=True)) if self.keeps_committed(me, after) else self.fails(me)

    def keeps_committed(self, before: Replica, after: Replica) -> bool:
        """Whether a replica's new log end and high watermark are at least its old high watermark.

        Kafka throws: `KafkaRaftLog.truncateTo`, `FollowerState.updateHighWatermark`.
        """
        return before.high_watermark <= min(after.high_watermark, len(after.log))

    def snapshot_request(self, me: Replica, snapshot: Position, source: ModelValue) -> FetchSnapshotRequest:
        """Return FetchSnapshot for the leader (KIP-630, "FetchSnapshot")."""
        return FetchSnapshotRequest(me.epoch, snapshot, me.directory, me.id, source, me.leader_endpoint)

    def can_read(self, me: Replica) -> bool:
        return me.version <= me.software

    def fails_to_read(self, me: Replica) -> Step:
        """Return the step in which a process stops because its software cannot read a record.

        KIP-853, "Supported features": all replicas must be able to read the new control records. The upgrade checks the
        versions of the voters, but one of them may restart with other software before the upgrade.
        """
        return self.taken(me, permanently_down_replica(me), starts=True)

    def is_expected(self, me: Replica, response: FetchResponse) -> bool:
        """Whether a response answers the pending request; responses to earlier, equal requests are dropped before."""
        return me.pending == response.request

    def truncate(self, me: Replica, response: FetchResponse, diverging: Position) -> Replica:
        """Return the follower with its log truncated where it diverges from the leader's, and that log's voter set."""
        return self.with_log(me, log_truncated_by_diverging_epoch(me.log, diverging), flushes=self.flushes(me))

    def append(self, me: Replica, response: FetchResponse) -> Replica:
        return self.with_log(me, me.log + response.records, flushes=self.flushes(me))

    def flushes(self, me: Replica) -> bool:
        """Whether a replica flushes appended batches before its next fetch reports them to the leader.

        Controllers always flush (KAFKA-10533, KAFKA-17332); brokers, which are never voters, do not.
        """
        return me.id not in self.brokers

    def take_high_watermark(self, me: Replica, response: FetchResponse) -> Replica:
        """Return the follower with its leader's high watermark, bounded by its own log end.

        A diverging response carries none, and neither does that of a leader before its first commit.
        """
        if response.high_watermark == 0 or isinstance(response.diverging, Position):
            return me
        return me.but(high_watermark=min(response.high_watermark, len(me.log)))

    def servers(self, me: Replica) -> frozenset[ModelValue]:
        """Return the bootstrap servers from which a replica may fetch."""
        return self.bootstrap_servers - {me.id}

    @internal
    def fetch_from_bootstrap_server(self, me: Replica) -> Steps:
        """A replica without a known leader fetches from the bootstrap servers.

        KIP-853, "Bootstrap-servers"; KAFKA-17030 for voters.
        """
        if me.mode is not Mode.UNATTACHED:
            return
        if not isinstance(me.pending, Nil):
            return
        for server in ordered(self.servers(me)):
            fetch = self.fetch_from(me, server, 0)
            yield self.taken(me, me.but(pending=fetch), fetch, consumes=False)

    @internal(reads=QuorumBase.bystander)
    def retry(self, me: Replica, shared: Shared, bystander: OtherReplicas) -> Steps:
        """A request times out, and the replica sends its current request again (KIP-595, "Fetch").

        An observer may fetch from a bootstrap server instead, in case its leader is gone (KAFKA-17030). A pending
        UpdateVoter, AddVoter or RemoveVoter of its own is given up, and may be sent again (KIP-853, "UpdateVoter").
        """
        if (me.updating or me.joining) and not self.is_own_request_served(me, shared, bystander):
            yield self.taken(me, me.but(updating=False, joining=False), consumes=False).spend("retries")
        if isinstance(me.pending, Nil) or self.is_answered(me, shared, bystander):
            return
        free = me.but(pending=Nil.NIL)
        yield self.taken(me, free, consumes=False).spend("retries")
        if me.mode is Mode.FOLLOWER and not self.is_voter(me):
            for server in ordered(self.servers(me)):
                fetch = self.fetch_from(me, server, 0)
                yield self.taken(me, me.but(pending=fetch), fetch, consumes=False).spend("retries")

    # Snapshots

    @internal
    def take_snapshot(self, me: Replica) -> Steps:
        """The state machine snapshots the committed log, flushes the snapshot and deletes the log before it.

        KIP-630, "Proposed Changes"; KIP-853, "Snapshots".
        """
        if me.high_watermark <= me.start:
            return
        end = self.snapshot_end(me)
        yield self.taken(me, me.but(start=end, flushed=max(me.flushed, end)), consumes=False).spend("snapshots")

    def snapshot_end(self, me: Replica) -> int:
        return me.high_watermark

    @on(FetchSnapshotRequest)
    def handle_fetch_snapshot_request(self, me: Replica, request: FetchSnapshotRequest, shared: Shared) -> Steps:
        """A leader sends a snapshot that it still holds (KIP-630, "FetchSnapshot").

        Neither sender nor receiver needs to be a voter (KIP-853, "FetchSnapshot").
        """
        if self.is_cut(me, request.source, shared):
            return
        if self.is_foreign(me, request.source):
            refusal = self.snapshot_answer(self.without_leader(me), request, Error.INCONSISTENT_CLUSTER_ID)
            yield self.taken(me, me, refusal)
            return
        error = self.epoch_error(me, request.epoch)
        if error is Error.NONE and not self.holds_snapshot(me, request.snapshot):
            error = Error.SNAPSHOT_NOT_FOUND
        yield self.taken(me, me, self.snapshot_answer(me, request, error))

    def snapshot_answer(self, me: Replica, request: FetchSnapshotRequest, error: Error) -> FetchSnapshotResponse:
        content = me.log[: request.snapshot.offset] if error is Error.NONE else ()
        shown = self.endpoint_shown(me)
        return FetchSnapshotResponse(me.epoch, me.leader, error, content, request, me.id, request.source, shown)

    @on(FetchSnapshotResponse)
    def handle_fetch_snapshot_response(self, me: Replica, response: FetchSnapshotResponse, shared: Shared) -> Steps:
        """A replica replaces its log by a snapshot, or fetches again if the leader no longer holds the snapshot.

        KIP-630, "FetchSnapshot"; KIP-853, "Snapshots", for the voter set of the snapshot.
        """
        if self.is_cut(me, response.source, shared):
            return
        if me.pending != response.request:
            yield self.taken(me, me)
            return
        after, done = self.common_response(me.but(pending=Nil.NIL), response)
        if done or after.mode is not Mode.FOLLOWER or response.error is not Error.NONE:
            yield self.taken(me, after)
            return
        loaded = self.load(after, response)
        yield self.taken(me, loaded.but(fetched=True)) if self.can_read(loaded) else self.fails_to_read(me)

    def load(self, me: Replica, response: FetchSnapshotResponse) -> Replica:
        """Return the replica with a snapshot as its log, and with the voter set and kraft.version of the snapshot."""
        end = len(response.content)
        loaded = self.with_log(me, response.content, flushes=True)
        return loaded.but(start=end, high_watermark=max(end, me.high_watermark))


__all__ = ["QuorumReplication"]
