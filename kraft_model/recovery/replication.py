"""Replication and clients in `Recovery`: truncating and fetching, serving and refusing, acknowledging."""

from __future__ import annotations

from kraftcheck.kraft_model.recovery.brokers import high_watermark
from kraftcheck.kraft_model.recovery.partition import epoch_end, last_epoch
from kraftcheck.kraft_model.recovery.records import (
    RECOVERING,
    AlterPartitionRequest,
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
from kraftcheck.spec import ModelValue, Step, Steps, become, consume, internal, on, ordered


class ReplicationActions:
    """How followers copy the leader's log; mixed into `Recovery`."""

    # The follower

    @internal
    def ask_for_epoch_end(self, me: Broker) -> Steps:
        """Follower: before it fetches from a new leader it asks where its last epoch ends there (KIP-101, KIP-279)."""
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
        """Broker: a leader that is not recovering answers; anyone else refuses.

        Source: KIP-704, Topic Partition Leader (OFFSET_FOR_LEADER_EPOCH); KIP-320 for the epochs.
        """
        if not me.running:
            return
        error = self._replica_refusal(me, request.leader_epoch)
        epoch, end = epoch_end(me.log, request.asked_epoch) if error is Error.NONE else (-1, 0)
        yield consume(me).reply(EpochEndResponse(error, request.leader_epoch, epoch, end, request.source))

    @on(EpochEndResponse)
    def truncate(self, me: Broker, response: EpochEndResponse) -> Steps:
        """Broker: a follower cuts its log where the leader's ends; if the leader lacks the epoch, it asks again.

        Refused, it backs off and asks again. Source: KIP-279; KIP-704, Clients ("the replicas will handle this error
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
        """Follower: it fetches what comes after the end of its log, one request at a time."""
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
        """Leader: it notes how far the follower is, which may commit values; the request waits until there is more."""
        if not me.running or self._replica_refusal(me, request.leader_epoch) is not Error.NONE:
            return
        if me.ends.get(request.source, -1) == request.offset:
            return
        yield self._acknowledge(me.but(ends=me.ends.put(request.source, request.offset)), shared)

    @on(ReplicaFetch)
    def answer_fetch(self, me: Broker, request: ReplicaFetch) -> Steps:
        """Broker: a leader that is not recovering answers once it has more; anyone else refuses at once.

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
        """Broker: a follower appends what it asked for. Refused, it backs off and asks again."""
        if not me.running:
            return
        if not me.follows or not me.fetching or response.leader_epoch != me.partition.leader_epoch:
            yield consume(me)
            return
        asked_for = response.error is Error.NONE and response.offset == len(me.log)
        yield consume(me.but(fetching=False, log=me.log + response.entries if asked_for else me.log))

    def _replica_refusal(self, me: Broker, leader_epoch: int) -> Error:
        """Return the error with which a replica's request is refused; NONE where it is served."""
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

    def _is_recovering(self, me: Broker) -> bool:
        """Whether a broker, leader or follower, refuses because the leader is recovering.

        It is, until the controller has confirmed that the leader has recovered: what a broker goes by is the recovery
        state that it was told.
        """
        return me.partition.recovery is RECOVERING

    # Committing

    def _acknowledge(self, me: Broker, shared: Shared) -> Step:
        """Return the step in which a leader answers the PRODUCE requests whose values all in-sync replicas have.

        While a request to change the ISR is under way, the replicas of both the old and the new one count (KIP-497).
        """
        if not me.leads or not me.waiting:
            return become(me)
        end = high_watermark(me, self._counted(me))
        done = sorted(offset for offset in me.waiting if offset <= end)
        if not done:
            return become(me)
        told = [(me.partition.leader_epoch, me.log[offset - 1].value) for offset in done]
        responses = [ClientResponse(Api.PRODUCE, value, Error.NONE, epoch, me.id) for epoch, value in told]
        left = me.but(waiting=me.waiting - set(done))
        return become(left).put(acknowledged=shared.acknowledged | set(told)).send(*responses)

    def _counted(self, me: Broker) -> frozenset[ModelValue]:
        """The replicas that must have a value before it is committed."""
        return me.partition.isr | (me.pending.isr if isinstance(me.pending, AlterPartitionRequest) else frozenset())


class ClientActions:
    """What clients ask, and what they are answered; mixed into `Recovery`."""

    brokers: frozenset[ModelValue]
    old_brokers: frozenset[ModelValue]
    apis: frozenset[Api]

    @internal
    def send_request(self, me: Client, shared: Shared) -> Steps:
        """Client: it asks some broker, by metadata that may be old; refused before, it tries again, anywhere.

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
        """Client: it is served, or will try again."""
        refused = response.error is not Error.NONE
        yield consume(Client(waiting=me.waiting, refused=True) if refused else Client())

    @internal
    def give_up(self, me: Client) -> Steps:
        """Client: after a while it does not try again. Source: KIP-704, Clients ("within the retry window")."""
        if me.refused:
            yield become(Client())

    @on(ClientRequest)
    def refuse_client(self, me: Broker, request: ClientRequest) -> Steps:
        """Broker: NOT_LEADER_OR_FOLLOWER to whom it does not serve: all, while the leader is recovering.

        Source: KIP-704, Topic Partition Leader and Topic Partition Follower.
        """
        if not me.running or self._serves(me, request.api):
            return
        yield consume(me).reply(_answer(me, request, Error.NOT_LEADER_OR_FOLLOWER))

    @on(ClientRequest)
    def serve_client(self, me: Broker, request: ClientRequest, shared: Shared) -> Steps:
        """Broker: FETCH (which a follower serves too, KIP-392), LIST_OFFSETS, DELETE_RECORDS, OFFSET_FOR_LEADER_EPOCH.

        What is in the answer makes no difference here; nor does where the log then starts.
        """
        if request.api is Api.PRODUCE or not self._serves(me, request.api):
            return
        yield consume(me).put(served=self._served(me, shared)).reply(_answer(me, request, Error.NONE))

    @on(ClientRequest)
    def append_produced(self, me: Broker, request: ClientRequest, shared: Shared) -> Steps:
        """Leader: it appends what a client produces, and answers when all in-sync replicas have it (acks=all)."""
        if request.api is not Api.PRODUCE or not self._serves(me, request.api):
            return
        log = (*me.log, Entry(me.partition.leader_epoch, request.value))
        appended = me.but(log=log, waiting=me.waiting | {len(log)})
        yield self._acknowledge(appended, shared).put(served=self._served(me, shared)).but(consumes=True)

    def _served(self, me: Broker, shared: Shared) -> frozenset[int]:
        """The leader epochs in which clients were served, with that of a broker which serves one now."""
        return shared.served if me.id in self.old_brokers else shared.served | {me.partition.leader_epoch}

    def _serves(self, me: Broker, api: Api) -> bool:
        """Whether a broker serves a kind of request of clients."""
        may_serve = me.leads or (me.follows and api is Api.FETCH)
        return may_serve and not self._is_recovering(me)

    def _is_recovering(self, me: Broker) -> bool:
        raise NotImplementedError

    def _acknowledge(self, me: Broker, shared: Shared) -> Step:
        raise NotImplementedError


def _answer(me: Broker, request: ClientRequest, error: Error) -> ClientResponse:
    return ClientResponse(request.api, request.value, error, me.partition.leader_epoch, me.id)
