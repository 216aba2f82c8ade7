"""The active controller of `registration`: its checks, records and answers."""

from __future__ import annotations

from kraftcheck.kraft_model.registration.base import RegistrationBase, is_majority
from kraftcheck.kraft_model.registration.records import (
    UNREGISTRATION_LEVEL,
    AdminResponse,
    Controller,
    Due,
    Error,
    FeatureLevelRecord,
    Image,
    LogRecord,
    Name,
    Nil,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    Registered,
    RegistrationRequest,
    RegistrationResponse,
    RemoveVoterRequest,
    Request,
    Response,
    Shared,
    UnregisterBrokerRecord,
    UnregisterBrokerRequest,
    UnregisterControllerRecord,
    UnregisterControllerRequest,
    UpdateFeaturesRequest,
    VotersRecord,
)
from kraftcheck.spec import (
    Map,
    ModelValue,
    Record,
    Step,
    Steps,
    become,
    consume,
    environment,
    internal,
    on,
    ordered,
    projection,
)


class RegistrationActiveController(RegistrationBase):
    # Requests that it does not handle

    @on(
        RegistrationRequest,
        UnregisterControllerRequest,
        UnregisterBrokerRequest,
        RemoveVoterRequest,
        UpdateFeaturesRequest,
    )
    def refuse_not_controller(self, me: Controller, request: Request, shared: Shared) -> Steps:
        """A controller that is not active answers NOT_CONTROLLER; one that is down does not answer.

        Source: New RPC, UnregisterControllerRequest ("if the request does not arrive at the active controller").
        """
        if me.running and shared.active == me.id:
            return
        error = Error.NOT_CONTROLLER if me.running else Error.DISCONNECTED
        yield consume(me).reply(response_to(request, error))

    # Registrations

    @on(RegistrationRequest)
    def handle_registration(self, me: Controller, request: RegistrationRequest, shared: Shared) -> Steps:
        """The active controller writes a registration, and answers once it is committed.

        A broker that does not support the finalized level is refused with UNSUPPORTED_VERSION; a controller is not
        checked. Source: Motivation; Kafka, ClusterControlManager.registerBroker and registerController.
        """
        if not me.running or shared.active != me.id:
            return
        if not self._may_register(request, self.image(shared)):
            yield consume(me).reply(response_to(request, Error.UNSUPPORTED_VERSION))
            return
        record: LogRecord
        if request.source in self.controllers:
            record = RegisterControllerRecord(request.source, request.incarnation, request.supports)
        else:
            record = RegisterBrokerRecord(request.source, request.incarnation, request.supports)
        yield self._append(me, shared, record, request)

    def _may_register(self, request: RegistrationRequest, image: Image) -> bool:
        """Whether a node may register; every controller may."""
        return request.source in self.controllers or request.supports >= image.level

    @on(UnregisterControllerRequest)
    def handle_unregister_controller(
        self, me: Controller, request: UnregisterControllerRequest, shared: Shared
    ) -> Steps:
        """The active controller writes an UnregisterControllerRecord, and answers once it is committed.

        Errors: UNSUPPORTED_VERSION if metadata.version has no such record, BROKER_ID_NOT_REGISTERED if there is no such
        registration. Source: New RPC, UnregisterControllerRequest; kafka-cluster, steps 1 to 3.
        """
        if not me.running or shared.active != me.id:
            return
        error = self._unregistration_refusal(request, shared)
        if error is not Error.NONE:
            yield consume(me).reply(response_to(request, error))
            return
        yield self._append(me, shared, UnregisterControllerRecord(request.controller), request)

    def _unregistration_refusal(self, request: UnregisterControllerRequest, shared: Shared) -> Error:
        """Return the error that refuses to unregister a controller; NONE if it is done."""
        image = self._image_to_check(shared)
        if self._is_gated() and image.level < UNREGISTRATION_LEVEL:
            return Error.UNSUPPORTED_VERSION
        if request.controller not in image.controllers:
            return Error.BROKER_ID_NOT_REGISTERED
        return Error.NONE

    def _is_gated(self) -> bool:
        """Whether the record is written only if metadata.version has it."""
        return True

    def _image_to_check(self, shared: Shared) -> Image:
        """Return the image that requests are checked against: with records that are not committed yet."""
        return self.image(shared)

    @on(UnregisterBrokerRequest)
    def handle_unregister_broker(self, me: Controller, request: UnregisterBrokerRequest, shared: Shared) -> Steps:
        """The active controller unregisters a broker in the same way, at every metadata.version.

        Source: Controller Changes ("in the same way it handles unregistering brokers").
        """
        if not me.running or shared.active != me.id:
            return
        if request.broker not in self.image(shared).brokers:
            yield consume(me).reply(response_to(request, Error.BROKER_ID_NOT_REGISTERED))
            return
        yield self._append(me, shared, UnregisterBrokerRecord(request.broker), request)

    # Voters

    @on(RemoveVoterRequest)
    def handle_remove_voter(self, me: Controller, request: RemoveVoterRequest, shared: Shared) -> Steps:
        """The active controller, as KRaft's leader, writes a VotersRecord without the voter.

        Errors: UNSUPPORTED_VERSION in a static quorum, REQUEST_TIMED_OUT while another change is uncommitted,
        VOTER_NOT_FOUND if it is no voter, INVALID_REQUEST if it is the only one. Source: kafka-metadata-quorum, steps 1
        to 3; KIP-853, "RemoveVoter".
        """
        if not me.running or shared.active != me.id:
            return
        error = self._removal_refusal(request, shared)
        if error is not Error.NONE:
            yield consume(me).reply(response_to(request, error))
            return
        yield self._append(me, shared, VotersRecord(self.voters(shared) - {request.voter}), request)

    def _removal_refusal(self, request: RemoveVoterRequest, shared: Shared) -> Error:
        if self.static:
            return Error.UNSUPPORTED_VERSION
        if any(isinstance(record, VotersRecord) for record in shared.log[shared.committed :]):
            return Error.REQUEST_TIMED_OUT
        voters = self.voters(shared)
        if request.voter not in voters:
            return Error.VOTER_NOT_FOUND
        return self._only_voter_refusal() if len(voters) == 1 else Error.NONE

    def _only_voter_refusal(self) -> Error:
        """Return the error that refuses to remove the only voter."""
        return Error.INVALID_REQUEST

    # Feature upgrades

    @on(UpdateFeaturesRequest)
    def handle_update_features(self, me: Controller, request: UpdateFeaturesRequest, shared: Shared) -> Steps:
        """The active controller finalizes a level that all members support by their registrations.

        The error is INVALID_UPDATE_VERSION if one does not, running or not, or a voter of a static quorum has no
        registration. Source: Motivation; Kafka, FeatureControlManager.reasonNotSupported.
        """
        if not me.running or shared.active != me.id:
            return
        yield self._upgrades(me, request, shared, self._image_to_check(shared))

    def _upgrades(self, me: Controller, request: UpdateFeaturesRequest, shared: Shared, image: Image) -> Step:
        """Return the step that finalizes a level, or refuses to, by the registrations in an image."""
        if not self._all_support(me, request.level, shared, image):
            return consume(me).reply(response_to(request, Error.INVALID_UPDATE_VERSION))
        return self._append(me, shared, FeatureLevelRecord(request.level), request)

    def _all_support(self, me: Controller, level: int, shared: Shared, image: Image) -> bool:
        members = [*image.brokers.values(), *self._controllers_asked(image).values()]
        missing = shared.voters - {me.id} - frozenset(image.controllers) if self.static else frozenset()
        enough = me.supports >= level and all(member.supports >= level for member in members)
        return enough and not missing and level > image.level

    def _controllers_asked(self, image: Image) -> Map[ModelValue, Registered]:
        """Return the controllers that must support a level: all that are registered."""
        return image.controllers

    # Committing

    def _append(self, me: Controller, shared: Shared, record: LogRecord, request: Request) -> Step:
        """Return the step that writes a record; the answer is due when that is committed."""
        log = (*shared.log, record)
        due = Due(len(log), response_to(request, Error.NONE))
        return consume(me.but(due=(*me.due, due))).put(log=log)

    @internal(reads=RegistrationBase.running)
    def commit(self, me: Controller, shared: Shared, running: Map[ModelValue | Name, bool]) -> Steps:
        """The active controller commits its log, which a majority of the voters has, and sends the answers due.

        If what is now committed has it among the voters no more, it is no longer active. Source: kafka-cluster, step 3;
        kafka-metadata-quorum, steps 3 and 6 ("When this record is committed"); KIP-853, "RemoveVoter", step 7.
        """
        if not me.running or shared.active != me.id:
            return
        if shared.committed == len(shared.log):
            return
        if not is_majority(frozenset(node for node in self.controllers if running[node]), self.voters(shared)):
            return
        told = {(due.offset, shared.log[due.offset - 1]) for due in me.due if isinstance(due.response, AdminResponse)}
        answers = [due.response for due in me.due]
        step = become(me.but(due=())).put(committed=len(shared.log), told=shared.told | told)
        yield (step.put(active=Nil.NIL) if self._leaves_office(me, shared) else step).send(*answers)

    def _leaves_office(self, me: Controller, shared: Shared) -> bool:
        """Whether an active controller resigns once its log is committed: it has removed itself."""
        return me.id not in self.voters(shared)

    # Another active controller

    @internal
    def resign(self, me: Controller, shared: Shared) -> Steps:
        """The active controller loses the leadership, and tells those that wait for an answer (Kafka, renounce)."""
        if shared.active != me.id:
            return
        answers = [due.response.but(error=Error.NOT_CONTROLLER) for due in me.due]
        yield become(me.but(due=())).put(active=Nil.NIL).send(*answers).spend("resignations")

    @projection
    def cursors(self, me: Record) -> int:
        """The number of committed records that a running controller has applied; -1 for other processes."""
        return me.cursor if isinstance(me, Controller) and me.running else -1

    @environment(reads=cursors)
    def elect_active(self, shared: Shared, cursors: Map[ModelValue | Name, int]) -> Steps:
        """KRaft elects a running voter that has applied what is committed; of the rest it has some records or none."""
        if shared.active is not Nil.NIL:
            return
        for kept in range(shared.committed, len(shared.log) + 1):
            voters = self.voters(shared, kept)
            running = frozenset(node for node in self.controllers if cursors[node] >= 0)
            for node in ordered(running & voters) if is_majority(running, voters) else ():
                if cursors[node] == shared.committed:
                    yield self._elected(shared, node, kept)

    def _elected(self, shared: Shared, node: ModelValue, kept: int) -> Step:
        """Return the step in which a node becomes active that kept so many records of the log."""
        return Step().put(active=node, log=shared.log[:kept])


def response_to(request: Request, error: Error) -> Response:
    if isinstance(request, RegistrationRequest):
        return RegistrationResponse(request.incarnation, error, request.source)
    return AdminResponse(error, request.serial)
