"""Requests and responses of `recovery`: clients and their service; truncation and fetches of followers."""

from __future__ import annotations

from kraftcheck.kraft_model.recovery.base import RecoveryBase, epoch_and_end_offset_up_to_epoch, last_epoch
from kraftcheck.kraft_model.recovery.records import (
    Api,
    Broker,
    Client,
    ClientRequest,
    ClientResponse,
    Entry,
    EpochEndRequest,
    EpochEndResponse,
    Error,
    Nil,
    ReplicaFetch,
    ReplicaFetchResponse,
    Shared,
)
from kraftcheck.spec import ModelValue, Steps, become, consume, internal, on, ordered


def _client_response(me: Broker, request: ClientRequest, error: Error) -> ClientResponse:
    return ClientResponse(request.api, request.value, error, me.partition.leader_epoch, me.id)


class RecoveryExchanges(RecoveryBase):
    """Requests of clients, and their service by brokers; truncation and fetches of followers."""

    @internal
    def send_request(self, me: Client, shared: Shared) -> Steps:
        """A client sends a request to any broker, since its metadata may be stale; once rejected, it retries.

        Source: KIP-704, Clients ("the clients will retry this error").
        """
        if me.waiting is not Nil.NIL and not me.refused:
            return
        apis = [me.waiting] if isinstance(me.waiting, Api) else ordered(self.apis)
        for api in apis:
            value = shared.values + 1 if api is Api.PRODUCE else 0
            for broker in ordered(self.brokers):
                step = become(Client(waiting=api)).send(ClientRequest(api, value, broker)).spend("requests")
                yield step.put(values=value) if value else step

    @on(ClientResponse)
    def handle_response(self, me: Client, response: ClientResponse) -> Steps:
        """A client's request is done, or will be retried after an error."""
        refused = response.error is not Error.NONE
        yield consume(Client(waiting=me.waiting, refused=True) if refused else Client())

    @internal
    def give_up(self, me: Client) -> Steps:
        """A client gives up a rejected request. Source: KIP-704, Clients ("within the retry window")."""
        if me.refused:
            yield become(Client())

    @on(ClientRequest)
    def refuse_client(self, me: Broker, request: ClientRequest) -> Steps:
        """A broker that is not serving rejects clients with NOT_LEADER_OR_FOLLOWER, as all do during recovery.

        Source: KIP-704, Topic Partition Leader and Topic Partition Follower.
        """
        if not me.running or self._serves(me, request.api):
            return
        yield consume(me).reply(_client_response(me, request, Error.NOT_LEADER_OR_FOLLOWER))

    @on(ClientRequest)
    def serve_client(self, me: Broker, request: ClientRequest, shared: Shared) -> Steps:
        """A broker serves FETCH (a follower too, KIP-392), LIST_OFFSETS, DELETE_RECORDS or
        OFFSET_FOR_LEADER_EPOCH.

        The model omits the contents of the response, and the log start after DELETE_RECORDS.
        """
        if request.api is Api.PRODUCE or not self._serves(me, request.api):
            return
        yield consume(me).put(served=self._served(me, shared)).reply(_client_response(me, request, Error.NONE))

    @on(ClientRequest)
    def append_produced(self, me: Broker, request: ClientRequest, shared: Shared) -> Steps:
        """A leader appends a produced value, and acknowledges it once all in-sync replicas hold it (acks=all)."""
        if request.api is not Api.PRODUCE or not self._serves(me, request.api):
            return
        log = (*me.log, Entry(me.partition.leader_epoch, request.value))
        appended = me.but(log=log, waiting=me.waiting | {len(log)})
        yield self._acknowledge(appended, shared).put(served=self._served(me, shared)).but(consumes=True)

    def _served(self, me: Broker, shared: Shared) -> frozenset[int]:
        """Return the leader epochs in which clients were served; only an old broker does not add its own epoch."""
        return shared.served if me.id in self.old_brokers else shared.served | {me.partition.leader_epoch}

    # The follower

    @internal
    def ask_for_epoch_end(self, me: Broker) -> Steps:
        """A follower requests the end of its last epoch from a new leader, before it fetches (KIP-101, KIP-279)."""
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
        """A leader that is not recovering answers; other brokers reject the request.

        Source: KIP-704, Topic Partition Leader (OFFSET_FOR_LEADER_EPOCH); KIP-320 for the epochs.
        """
        if not me.running:
            return
        error = self._replica_refusal(me, request.leader_epoch)
        epoch, end = epoch_and_end_offset_up_to_epoch(me.log, request.asked_epoch) if error is Error.NONE else (-1, 0)
        yield consume(me).reply(EpochEndResponse(error, request.leader_epoch, epoch, end, request.source))

    @on(EpochEndResponse)
    def truncate(self, me: Broker, response: EpochEndResponse) -> Steps:
        """A follower truncates its log to the leader's epoch end; if the leader lacks the epoch, it asks again.

        After an error it backs off and asks again. Source: KIP-279; KIP-704, Clients ("the replicas will handle this
        error by backing off").
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
        _, own_end = epoch_and_end_offset_up_to_epoch(me.log, response.epoch)
        kept = me.log[: min(response.end_offset, own_end)]
        yield consume(me.but(log=kept, truncated=agreed or not kept, fetching=False))

    @internal
    def fetch_from_leader(self, me: Broker) -> Steps:
        """A follower fetches the entries after its log end, one request at a time."""
        if not me.follows or me.fetching or not self._may_fetch(me):
            return
        leader = me.partition.leader
        assert isinstance(leader, ModelValue)
        request = ReplicaFetch(me.partition.leader_epoch, len(me.log), me.id, leader)
        yield become(me.but(fetching=True)).send(request).spend("fetches")

    def _may_fetch(self, me: Broker) -> bool:
        """Whether a follower has truncated its log in this leader epoch, to a prefix of the leader's log."""
        return me.truncated

    @on(ReplicaFetch)
    def note_fetch(self, me: Broker, request: ReplicaFetch, shared: Shared) -> Steps:
        """A leader records a follower's log end, which may commit values; the fetch waits for new entries."""
        if not me.running or self._replica_refusal(me, request.leader_epoch) is not Error.NONE:
            return
        if me.ends.get(request.source, -1) == request.offset:
            return
        yield self._acknowledge(me.but(ends=me.ends.put(request.source, request.offset)), shared)

    @on(ReplicaFetch)
    def answer_fetch(self, me: Broker, request: ReplicaFetch) -> Steps:
        """A leader that is not recovering answers once it has new entries; other brokers reject at once.

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
        """A follower appends the fetched entries. After an error it backs off and fetches again."""
        if not me.running:
            return
        if not me.follows or not me.fetching or response.leader_epoch != me.partition.leader_epoch:
            yield consume(me)
            return
        asked_for = response.error is Error.NONE and response.offset == len(me.log)
        yield consume(me.but(fetching=False, log=me.log + response.entries if asked_for else me.log))

    def _replica_refusal(self, me: Broker, leader_epoch: int) -> Error:
        """Return the error that rejects a replica's request; NONE if it is served."""
        if me.partition.leader_epoch > leader_epoch:
            return Error.FENCED_LEADER_EPOCH
        if me.partition.leader_epoch < leader_epoch:
            return Error.UNKNOWN_LEADER_EPOCH
        if not me.leads or self._refuses_replicas(me):
            return Error.NOT_LEADER_OR_FOLLOWER
        return Error.NONE

    def _refuses_replicas(self, me: Broker) -> bool:
        """Whether a leader rejects its followers: as long as it rejects clients."""
        return self._is_recovering(me)
