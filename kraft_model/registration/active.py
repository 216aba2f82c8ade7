"""The active controller of `registration`: its checks, records and responses."""

from __future__ import annotations

from kraftcheck.kraft_model.registration.base import RegistrationBase, includes_majority_of_voters
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
    # Requests to a controller that is not active

    @on(
        RegistrationRequest,
        UnregisterControllerRequest,
        UnregisterBrokerRequest,
        RemoveVoterRequest,
        UpdateFeaturesRequest,
    )
    def refuse_not_controller(self, me: Controller, request: Request, shared: Shared) -> Steps:
        """A controller that is not active answers NOT_CONTROLLER; a stopped one disconnects.

        Source: New RPC, UnregisterControllerRequest ("if the request does not arrive at the active controller").
        """
        if me.running and shared.active == me.id:
            return
        error = Error.NOT_CONTROLLER if me.running else Error.DISCONNECTED
        yield consume(me).reply(response_to(request, error))

    # Registrations

    @on(RegistrationRequest)
    def handle_registration(self, me: Controller, request: RegistrationRequest, shared: Shared) -> Steps:
        """The active controller appends a registration, and responds once it is committed.

        A broker that does not support the finalized level is rejected with UNSUPPORTED_VERSION; a controller is not
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
        """Whether a node may register: any controller, and a broker that supports the finalized level."""
        return request.source in self.controllers or request.supports >= image.level

    @on(UnregisterControllerRequest)
    def handle_unregister_controller(
        self, me: Controller, request: UnregisterControllerRequest, shared: Shared
    ) -> Steps:
        """The active controller appends an UnregisterControllerRecord, and responds once it is committed.

        Errors: UNSUPPORTED_VERSION if metadata.version lacks the record, BROKER_ID_NOT_REGISTERED without a
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
        """Return the error that rejects unregistering a controller; NONE if it is allowed."""
        image = self._image_to_check(shared)
        if self._is_gated() and image.level < UNREGISTRATION_LEVEL:
            return Error.UNSUPPORTED_VERSION
        if request.controller not in image.controllers:
            return Error.BROKER_ID_NOT_REGISTERED
        return Error.NONE

    def _is_gated(self) -> bool:
        """Whether appending UnregisterControllerRecord requires a metadata.version that has the record."""
        return True

    def _image_to_check(self, shared: Shared) -> Image:
        """Return the image against which requests are checked, with uncommitted records."""
        return self.image(shared)

    @on(UnregisterBrokerRequest)
    def handle_unregister_broker(self, me: Controller, request: UnregisterBrokerRequest, shared: Shared) -> Steps:
        """The active controller unregisters a broker as it does a controller, at every metadata.version.

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
        """The active controller, as KRaft's leader, appends a VotersRecord without the voter.

        Errors: UNSUPPORTED_VERSION in a static quorum, REQUEST_TIMED_OUT with an uncommitted voter change,
        VOTER_NOT_FOUND for a node outside the voter set, INVALID_REQUEST for the only voter. Source:
        kafka-metadata-quorum, steps 1 to 3; KIP-853, "RemoveVoter".
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
        """Return the error that rejects removing the only voter."""
        return Error.INVALID_REQUEST

    # Feature upgrades

    @on(UpdateFeaturesRequest)
    def handle_update_features(self, me: Controller, request: UpdateFeaturesRequest, shared: Shared) -> Steps:
        """The active controller finalizes a level that the registrations of all members support.

        Otherwise the error is INVALID_UPDATE_VERSION, also for stopped members. In a static quorum, so does a voter
        without a registration. Source: Motivation; Kafka, FeatureControlManager.reasonNotSupported.
        """
        if not me.running or shared.active != me.id:
            return
        yield self._upgrades(me, request, shared, self._image_to_check(shared))

    def _upgrades(self, me: Controller, request: UpdateFeaturesRequest, shared: Shared, image: Image) -> Step:
        """Return the step that finalizes a level, or rejects it if a registration in an image lacks support."""
        if not self._all_support(me, request.level, shared, image):
            return consume(me).reply(response_to(request, Error.INVALID_UPDATE_VERSION))
        return self._append(me, shared, FeatureLevelRecord(request.level), request)

    def _all_support(self, me: Controller, level: int, shared: Shared, image: Image) -> bool:
        members = [*image.brokers.values(), *self._controllers_asked(image).values()]
        missing = shared.voters - {me.id} - frozenset(image.controllers) if self.static else frozenset()
        enough = me.supports >= level and all(member.supports >= level for member in members)
        return enough and not missing and level > image.level

    def _controllers_asked(self, image: Image) -> Map[ModelValue, Registered]:
        """Return the controllers that must support a level before it is finalized: all registered ones."""
        return image.controllers

    # Committing

    def _append(self, me: Controller, shared: Shared, record: LogRecord, request: Request) -> Step:
        """Return the step that appends a record; the response is due when the record is committed."""
        log = (*shared.log, record)
        due = Due(len(log), response_to(request, Error.NONE))
        return consume(me.but(due=(*me.due, due))).put(log=log)

    @internal(reads=RegistrationBase.running)
    def commit(self, me: Controller, shared: Shared, running: Map[ModelValue | Name, bool]) -> Steps:
        """The active controller commits its log, held by a majority of the voters, and sends the due responses.

        If the committed voter set does not contain it, it is no longer active. Source: kafka-cluster, step 3;
        kafka-metadata-quorum, steps 3 and 6 ("When this record is committed"); KIP-853, "RemoveVoter", step 7.
        """
        if not me.running or shared.active != me.id:
            return
        if shared.committed == len(shared.log):
            return
        if not includes_majority_of_voters(
            frozenset(node for node in self.controllers if running[node]), self.voters(shared)
        ):
            return
        told = {(due.offset, shared.log[due.offset - 1]) for due in me.due if isinstance(due.response, AdminResponse)}
        answers = [due.response for due in me.due]
        step = become(me.but(due=())).put(committed=len(shared.log), told=shared.told | told)
        yield (step.put(active=Nil.NIL) if self._resigns_after_commit(me, shared) else step).send(*answers)

    def _resigns_after_commit(self, me: Controller, shared: Shared) -> bool:
        """Whether an active controller resigns once its log is committed, since it has removed itself."""
        return me.id not in self.voters(shared)

    # Another active controller

    @internal
    def resign(self, me: Controller, shared: Shared) -> Steps:
        """The active controller loses leadership and answers NOT_CONTROLLER to pending requests (Kafka, renounce)."""
        if shared.active != me.id:
            return
        answers = [due.response.but(error=Error.NOT_CONTROLLER) for due in me.due]
        yield become(me.but(due=())).put(active=Nil.NIL).send(*answers).spend("resignations")

    @projection
    def cursors(self, me: Record) -> int:
        """Number of committed records applied by a running controller; -1 for other processes."""
        return me.cursor if isinstance(me, Controller) and me.running else -1

    @environment(reads=cursors)
    def elect_active(self, shared: Shared, cursors: Map[ModelValue | Name, int]) -> Steps:
        """KRaft elects a running voter that has applied all committed records; uncommitted records may be lost."""
        if shared.active is not Nil.NIL:
            return
        for kept in range(shared.committed, len(shared.log) + 1):
            voters = self.voters(shared, kept)
            running = frozenset(node for node in self.controllers if cursors[node] >= 0)
            for node in ordered(running & voters) if includes_majority_of_voters(running, voters) else ():
                if cursors[node] == shared.committed:
                    yield self._elected(shared, node, kept)

    def _elected(self, shared: Shared, node: ModelValue, kept: int) -> Step:
        """Return the step in which a node becomes active, with the first `kept` records of the log."""
        return Step().put(active=node, log=shared.log[:kept])


def response_to(request: Request, error: Error) -> Response:
    if isinstance(request, RegistrationRequest):
        return RegistrationResponse(request.incarnation, error, request.source)
    return AdminResponse(error, request.serial)
