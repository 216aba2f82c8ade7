"""Clients of `recovery`: what they ask, and who serves or refuses them."""

from __future__ import annotations

from kraftcheck.kraft_model.recovery.base import RecoveryBase
from kraftcheck.kraft_model.recovery.records import (
    Api,
    Broker,
    Client,
    ClientRequest,
    ClientResponse,
    Entry,
    Error,
    Nil,
    Shared,
)
from kraftcheck.spec import Steps, become, consume, internal, on, ordered


class RecoveryClients(RecoveryBase):
    """Requests of clients, and the brokers' answers."""

    @internal
    def send_request(self, me: Client, shared: Shared) -> Steps:
        """A client asks some broker, since its metadata may be old; if refused, it tries again anywhere.

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
        """A client is served, or will try again."""
        refused = response.error is not Error.NONE
        yield consume(Client(waiting=me.waiting, refused=True) if refused else Client())

    @internal
    def give_up(self, me: Client) -> Steps:
        """A client gives up after a while. Source: KIP-704, Clients ("within the retry window")."""
        if me.refused:
            yield become(Client())

    @on(ClientRequest)
    def refuse_client(self, me: Broker, request: ClientRequest) -> Steps:
        """A broker refuses clients with NOT_LEADER_OR_FOLLOWER: all, while the leader is recovering.

        Source: KIP-704, Topic Partition Leader and Topic Partition Follower.
        """
        if not me.running or self._serves(me, request.api):
            return
        yield consume(me).reply(_answer(me, request, Error.NOT_LEADER_OR_FOLLOWER))

    @on(ClientRequest)
    def serve_client(self, me: Broker, request: ClientRequest, shared: Shared) -> Steps:
        """A broker serves FETCH (a follower does too, KIP-392), LIST_OFFSETS, DELETE_RECORDS or
        OFFSET_FOR_LEADER_EPOCH.

        The contents of the answer make no difference here; nor does where the log then starts.
        """
        if request.api is Api.PRODUCE or not self._serves(me, request.api):
            return
        yield consume(me).put(served=self._served(me, shared)).reply(_answer(me, request, Error.NONE))

    @on(ClientRequest)
    def append_produced(self, me: Broker, request: ClientRequest, shared: Shared) -> Steps:
        """A leader appends what a client produces, and answers when all in-sync replicas have it (acks=all)."""
        if request.api is not Api.PRODUCE or not self._serves(me, request.api):
            return
        log = (*me.log, Entry(me.partition.leader_epoch, request.value))
        appended = me.but(log=log, waiting=me.waiting | {len(log)})
        yield self._acknowledge(appended, shared).put(served=self._served(me, shared)).but(consumes=True)

    def _served(self, me: Broker, shared: Shared) -> frozenset[int]:
        """Return the leader epochs in which clients were served, with that of a broker that serves one now."""
        return shared.served if me.id in self.old_brokers else shared.served | {me.partition.leader_epoch}


def _answer(me: Broker, request: ClientRequest, error: Error) -> ClientResponse:
    return ClientResponse(request.api, request.value, error, me.partition.leader_epoch, me.id)
