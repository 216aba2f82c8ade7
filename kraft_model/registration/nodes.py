"""Nodes of `registration`: applying the log, registering, stopping and starting."""

from __future__ import annotations

from kraftcheck.kraft_model.registration.base import RegistrationBase, image_after_log, version_to_read_record
from kraftcheck.kraft_model.registration.records import (
    Broker,
    Controller,
    Error,
    Nil,
    Node,
    RegistrationRequest,
    RegistrationResponse,
    Shared,
)
from kraftcheck.spec import Record, Step, Steps, become, consume, internal, on


class RegistrationNodes(RegistrationBase):
    # The metadata log

    @internal
    def apply_record(self, me: Node, shared: Shared) -> Steps:
        """A node applies the next committed record. Source: kafka-cluster, steps 4 and 5."""
        if not me.running or me.cursor >= shared.committed:
            return
        if version_to_read_record(shared.log[me.cursor]) > me.supports:
            return
        yield become(me.but(cursor=me.cursor + 1))

    @internal
    def fail_on_record(self, me: Node, shared: Shared) -> Steps:
        """A node fails on a record or a level that its software does not support.

        Source: Rejected Alternatives ("would crash the controllers with an older software version"); Kafka, the fatal
        fault handler of the metadata loader.
        """
        if not me.running or me.cursor >= shared.committed:
            return
        if version_to_read_record(shared.log[me.cursor]) <= me.supports:
            return
        yield self._stopped(me, shared)

    # Registration

    @internal
    def register(self, me: Node, shared: Shared) -> Steps:
        """A node without a registration of its incarnation sends one to the active controller.

        A running controller does so even after it was unregistered: "This is to prevent accidental unregistrations". A
        broker does so only after a start. Source: Controller Changes; Kafka, ControllerRegistrationManager.
        """
        if not me.running or me.registering or isinstance(shared.active, Nil):
            return
        if me.cursor < shared.committed or self._is_registered(me, shared) or not self._wants_to_register(me, shared):
            return
        request = RegistrationRequest(me.incarnation, me.supports, me.id, shared.active)
        yield become(me.but(registering=True)).send(request)

    def _is_registered(self, me: Node, shared: Shared) -> bool:
        """Whether the applied records register this incarnation of a node."""
        image = image_after_log(self.snapshot(), shared.log[: me.cursor])
        registrations = image.controllers if isinstance(me, Controller) else image.brokers
        return me.id in registrations and registrations[me.id].incarnation == me.incarnation

    def _wants_to_register(self, me: Node, shared: Shared) -> bool:
        """Whether a node requests a registration: a controller always, a broker only after a start."""
        return isinstance(me, Controller) or not self._was_registered(me, shared)

    def _was_registered(self, me: Node, shared: Shared) -> bool:
        """Whether any prefix of the applied records registers this incarnation of a node."""
        return any(self._is_registered(me.but(cursor=place), shared) for place in range(me.cursor + 1))

    @on(RegistrationResponse)
    def handle_registration_response(self, me: Node, response: RegistrationResponse) -> Steps:
        """A node's registration attempt ends; a broker that is rejected stops.

        Source: Kafka, ControllerRegistrationManager and BrokerLifecycleManager.
        """
        if not me.running or response.incarnation != me.incarnation:
            yield consume(me)
            return
        stops = isinstance(me, Broker) and response.error is Error.UNSUPPORTED_VERSION
        yield consume(me.but(registering=False, running=not stops))

    # Stopping and starting

    @internal
    def stop(self, me: Node, shared: Shared) -> Steps:
        """The operator stops a node, or it fails."""
        if not me.running:
            return
        yield self._stopped(me, shared).spend("stops")

    def _stopped(self, me: Node, shared: Shared) -> Step:
        down = me.but(running=False, registering=False)
        step = become(down.but(due=()) if isinstance(me, Controller) else down)
        return step.put(active=Nil.NIL) if shared.active == me.id else step

    @internal
    def restart(self, me: Node, shared: Shared) -> Steps:
        """A stopped node restarts as a new incarnation, which has to register."""
        if me.running or me.id in shared.decommissioned:
            return
        yield become(_node_after_start(me, me.supports)).spend("starts")

    @internal
    def come_back(self, me: Node, shared: Shared) -> Steps:
        """The operator restarts a stopped node that is to be unregistered, against the KIP's advice.

        Source: User Experience ("does not intend to bring that node back").
        """
        if me.running or me.id not in shared.decommissioned:
            return
        yield become(_node_after_start(me, me.supports)).spend("returns")

    @internal
    def replace(self, me: Node) -> Steps:
        """A node with the same id and new software replaces a stopped node.

        Source: Compatibility ("bring up another controller node with the same node ID to refresh its registration").
        """
        if me.running or me.supports == self.newest:
            return
        yield become(_node_after_start(me, self.newest)).spend("replacements")


def _node_after_start(me: Node, supports: int) -> Record:
    return me.but(running=True, supports=supports, incarnation=me.incarnation + 1, cursor=0, registering=False)
