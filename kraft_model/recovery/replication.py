"""Replication of `recovery`: followers truncate and fetch."""

from __future__ import annotations

from kraftcheck.kraft_model.recovery.base import RecoveryBase
from kraftcheck.kraft_model.recovery.partition import epoch_end, last_epoch
from kraftcheck.kraft_model.recovery.records import (
    Broker,
    EpochEndRequest,
    EpochEndResponse,
    Error,
    ReplicaFetch,
    ReplicaFetchResponse,
    Shared,
)
from kraftcheck.spec import ModelValue, Steps, become, consume, internal, on


class RecoveryReplication(RecoveryBase):
    """Truncating, fetching, and serving both."""

    # The follower

    @internal
    def ask_for_epoch_end(self, me: Broker) -> Steps:
        """A follower asks a new leader where its last epoch ends there, before it fetches (KIP-101, KIP-279)."""
        if not me.follows or me.fetching or me.truncated:
            return
        leader = me.partition.leader
        assert isinstance(leader, ModelValue)
        if not me.log:
            yield become(me.but(truncated=True))
            return
        request = EpochEndRequest(me.partition.leader_epoch, last_epoch(me.log), me.id, leader)
        yield become(me.but(fetching=True)).send(request).spend("fetches")

    @on(EpochEndRequest)
    def answer_epoch_end(self, me: Broker, request: EpochEndRequest) -> Steps:
        """A leader that is not recovering answers; other brokers refuse.

        Source: KIP-704, Topic Partition Leader (OFFSET_FOR_LEADER_EPOCH); KIP-320 for the epochs.
        """
        if not me.running:
            return
        error = self._replica_refusal(me, request.leader_epoch)
        epoch, end = epoch_end(me.log, request.asked_epoch) if error is Error.NONE else (-1, 0)
        yield consume(me).reply(EpochEndResponse(error, request.leader_epoch, epoch, end, request.source))

    @on(EpochEndResponse)
    def truncate(self, me: Broker, response: EpochEndResponse) -> Steps:
        """A follower cuts its log where the leader's epoch ends; if the leader lacks the epoch, it asks again.

        If refused, it backs off and asks again. Source: KIP-279; KIP-704, Clients ("the replicas will handle this error
        by backing off").
        """
        if not me.running:
            return
        if not me.follows or not me.fetching or response.leader_epoch != me.partition.leader_epoch:
            yield consume(me)
            return
        if response.error is not Error.NONE or me.truncated:
            yield consume(me.but(fetching=False))
            return
        agreed = response.epoch == last_epoch(me.log)
        _, own_end = epoch_end(me.log, response.epoch)
        kept = me.log[: min(response.end_offset, own_end)]
        yield consume(me.but(log=kept, truncated=agreed or not kept, fetching=False))

    @internal
    def fetch_from_leader(self, me: Broker) -> Steps:
        """A follower fetches what follows the end of its log, one request at a time."""
        if not me.follows or me.fetching or not self._may_fetch(me):
            return
        leader = me.partition.leader
        assert isinstance(leader, ModelValue)
        request = ReplicaFetch(me.partition.leader_epoch, len(me.log), me.id, leader)
        yield become(me.but(fetching=True)).send(request).spend("fetches")

    def _may_fetch(self, me: Broker) -> bool:
        """Whether the log is known to be a prefix of the leader's."""
        return me.truncated

    @on(ReplicaFetch)
    def note_fetch(self, me: Broker, request: ReplicaFetch, shared: Shared) -> Steps:
        """A leader notes a follower's log end, which may commit values; the request waits until there is more."""
        if not me.running or self._replica_refusal(me, request.leader_epoch) is not Error.NONE:
            return
        if me.ends.get(request.source, -1) == request.offset:
            return
        yield self._acknowledge(me.but(ends=me.ends.put(request.source, request.offset)), shared)

    @on(ReplicaFetch)
    def answer_fetch(self, me: Broker, request: ReplicaFetch) -> Steps:
        """A leader that is not recovering answers once it has more; other brokers refuse at once.

        Source: KIP-704, Topic Partition Leader (FETCH).
        """
        if not me.running:
            return
        error = self._replica_refusal(me, request.leader_epoch)
        if error is Error.NONE:
            if me.ends.get(request.source, -1) != request.offset or request.offset >= len(me.log):
                return
            entries = me.log[request.offset :]
        else:
            entries = ()
        yield consume(me).reply(
            ReplicaFetchResponse(error, request.leader_epoch, request.offset, entries, request.source)
        )

    @on(ReplicaFetchResponse)
    def append_fetched(self, me: Broker, response: ReplicaFetchResponse) -> Steps:
        """A follower appends what it asked for. If refused, it backs off and asks again."""
        if not me.running:
            return
        if not me.follows or not me.fetching or response.leader_epoch != me.partition.leader_epoch:
            yield consume(me)
            return
        asked_for = response.error is Error.NONE and response.offset == len(me.log)
        yield consume(me.but(fetching=False, log=me.log + response.entries if asked_for else me.log))

    def _replica_refusal(self, me: Broker, leader_epoch: int) -> Error:
        """Return the error that refuses a replica's request; NONE if it is served."""
        if me.partition.leader_epoch > leader_epoch:
            return Error.FENCED_LEADER_EPOCH
        if me.partition.leader_epoch < leader_epoch:
            return Error.UNKNOWN_LEADER_EPOCH
        if not me.leads or self._refuses_replicas(me):
            return Error.NOT_LEADER_OR_FOLLOWER
        return Error.NONE

    def _refuses_replicas(self, me: Broker) -> bool:
        """Whether a leader refuses its followers: as long as it refuses clients."""
        return self._is_recovering(me)
