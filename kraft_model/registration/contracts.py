"""Contracts of `registration`: the response to each request, the effect of each response, the nodes' own steps.

Each contract names its source. It shares no rule with an action, so that no mistake in a rule affects both.
"""

from __future__ import annotations

from kraftcheck.kraft_model.registration.base import RegistrationBase
from kraftcheck.kraft_model.registration.records import (
    UNREGISTRATION_LEVEL,
    Admin,
    AdminRequest,
    AdminResponse,
    Broker,
    Command,
    Controller,
    Due,
    Error,
    FeatureLevelRecord,
    LogRecord,
    Nil,
    Node,
    Outcome,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    Registered,
    RegistrationRequest,
    RegistrationResponse,
    RemoveVoterRequest,
    Request,
    Response,
    Shared,
    Tool,
    UnregisterBrokerRecord,
    UnregisterBrokerRequest,
    UnregisterControllerRecord,
    UnregisterControllerRequest,
    UpdateFeaturesRequest,
    VotersRecord,
)
from kraftcheck.spec import ModelValue, Step, become, consume, step_invariant

Log = tuple[LogRecord, ...]
FIRST_REQUEST_OF_TOOL: dict[Tool, tuple[type[AdminRequest], str]] = {
    Tool.UNREGISTER_CONTROLLER: (UnregisterControllerRequest, "unregistrations"),
    Tool.UNREGISTER_BROKER: (UnregisterBrokerRequest, "unregistrations"),
    Tool.REMOVE_CONTROLLER: (RemoveVoterRequest, "removals"),
    Tool.REMOVE_AND_UNREGISTER: (RemoveVoterRequest, "removals"),
    Tool.UPGRADE: (UpdateFeaturesRequest, "upgrades"),
}
"""The first request of each tool, and the bound on its runs. CLI changes; KIP-853; KIP-584."""


class RegistrationContracts(RegistrationBase):
    # The active controller

    @step_invariant
    def others_answer_not_controller(self, before: Controller, message: Request, step: Step, shared: Shared) -> bool:
        """A request is answered NOT_CONTROLLER exactly if it does not arrive at the active controller.

        New RPC, UnregisterControllerRequest. A stopped controller disconnects.
        """
        error = Error.NOT_CONTROLLER if before.running else Error.DISCONNECTED
        refused = consume(before).reply(_response_to(message, error))
        return (step == refused) != (before.running and shared.active == before.id)

    @step_invariant
    def registrations_are_persisted(
        self, before: Controller, message: RegistrationRequest, step: Step, shared: Shared
    ) -> bool:
        """A node's registration is appended unchanged, unless a broker does not support the finalized level.

        Motivation ("persisted to the metadata log"); KIP-631, BrokerRegistration, UNSUPPORTED_VERSION.
        """
        kind = RegisterControllerRecord if message.source in self.controllers else RegisterBrokerRecord
        record = kind(message.source, message.incarnation, message.supports)
        refused = self._is_refused_registration(message, shared)
        error = Error.UNSUPPORTED_VERSION if refused else Error.NONE
        return self._handles(before, message, step, shared, error, record)

    def _is_refused_registration(self, request: RegistrationRequest, shared: Shared) -> bool:
        return request.source in self.brokers and request.supports < self._level(shared.log)

    @step_invariant
    def controllers_are_unregistered(
        self, before: Controller, message: UnregisterControllerRequest, step: Step, shared: Shared
    ) -> bool:
        """UnregisterControllerRecord is appended if metadata.version has it and the controller is registered.

        Otherwise the response is the error that applies. New RPC, UnregisterControllerRequest, errors; kafka-cluster,
        steps 2 and 3.
        """
        error = self._unregistration_error(message, shared)
        return self._handles(before, message, step, shared, error, UnregisterControllerRecord(message.controller))

    def _unregistration_error(self, request: UnregisterControllerRequest, shared: Shared) -> Error:
        if self._level(shared.log) < UNREGISTRATION_LEVEL:
            return Error.UNSUPPORTED_VERSION
        known = self._registration(request.controller, shared.log)
        return Error.NONE if known else Error.BROKER_ID_NOT_REGISTERED

    @step_invariant
    def brokers_are_unregistered(
        self, before: Controller, message: UnregisterBrokerRequest, step: Step, shared: Shared
    ) -> bool:
        """UnregisterBrokerRecord is appended exactly if the broker is registered. KIP-631, UnregisterBroker."""
        known = self._registration(message.broker, shared.log)
        error = Error.NONE if known else Error.BROKER_ID_NOT_REGISTERED
        return self._handles(before, message, step, shared, error, UnregisterBrokerRecord(message.broker))

    @step_invariant
    def voters_are_removed(self, before: Controller, message: RemoveVoterRequest, step: Step, shared: Shared) -> bool:
        """A VotersRecord without the voter is appended exactly if no error of KIP-853 applies.

        KIP-853, RemoveVoter: a static quorum (UNSUPPORTED_VERSION), an uncommitted voter change (REQUEST_TIMED_OUT), no
        such voter (VOTER_NOT_FOUND), no other voter (INVALID_REQUEST).
        """
        voters = self._voters(shared.log)
        error = Error.INVALID_REQUEST if voters == {message.voter} else Error.NONE
        if message.voter not in voters:
            error = Error.VOTER_NOT_FOUND
        if _last_record(shared.log[shared.committed :], VotersRecord):
            error = Error.REQUEST_TIMED_OUT
        if self.static:
            error = Error.UNSUPPORTED_VERSION
        return self._handles(before, message, step, shared, error, VotersRecord(voters - {message.voter}))

    @step_invariant
    def levels_are_finalized(
        self, before: Controller, message: UpdateFeaturesRequest, step: Step, shared: Shared
    ) -> bool:
        """A higher level is finalized exactly if the registration of every member supports it.

        Motivation ("determining if all cluster members support a feature level"); KIP-584, UpdateFeatures. The active
        controller checks its own software; in a static quorum every other voter must be registered.
        """
        members = [self._registration(node, shared.log) for node in self.controllers | self.brokers]
        asked = [before.supports, *[member.supports for member in members if member]]
        unknown = {node for node in shared.voters - {before.id} if not self._registration(node, shared.log)}
        fits = self._level(shared.log) < message.level <= min(asked) and not unknown
        error = Error.NONE if fits else Error.INVALID_UPDATE_VERSION
        return self._handles(before, message, step, shared, error, FeatureLevelRecord(message.level))

    def _handles(
        self, before: Controller, message: Request, step: Step, shared: Shared, error: Error, record: LogRecord
    ) -> bool:
        """Whether an active controller answers with `error`, or appends `record` and responds after its commit."""
        if not before.running or shared.active != before.id:
            return True
        if error is not Error.NONE:
            return step == consume(before).reply(_response_to(message, error))
        due = Due(len(shared.log) + 1, _response_to(message, Error.NONE))
        return step == consume(before.but(due=(*before.due, due))).put(log=(*shared.log, record))

    @step_invariant
    def what_is_committed_is_answered(self, before: Controller, step: Step, shared: Shared) -> bool:
        """Responses are sent exactly when their records are committed.

        kafka-cluster, step 3; kafka-metadata-quorum, steps 3 and 6. An active controller that has removed itself then
        resigns (KIP-853, RemoveVoter, step 7).
        """
        puts = dict(step.puts)
        if "committed" not in puts:
            return "told" not in puts
        voters = shared.voters if self.static else self._voters(shared.log)
        told = {
            (due.offset, shared.log[due.offset - 1]) for due in before.due if isinstance(due.response, AdminResponse)
        }
        expected = {"committed": len(shared.log), "told": shared.told | told}
        if before.id not in voters:
            expected["active"] = Nil.NIL
        office = before.running and shared.active == before.id and shared.committed < len(shared.log)
        answers = tuple(due.response for due in before.due)
        return office and puts == expected and step.but(puts=()) == become(before.but(due=())).send(*answers)

    @step_invariant
    def who_resigns_answers_not_controller(self, before: Controller, step: Step, shared: Shared) -> bool:
        """An active controller that loses leadership answers NOT_CONTROLLER to pending requests. New RPC."""
        if "resignations" not in step.spends:
            return True
        answers = [due.response.but(error=Error.NOT_CONTROLLER) for due in before.due]
        resigned = become(before.but(due=())).put(active=Nil.NIL).send(*answers).spend("resignations")
        return shared.active == before.id and step == resigned

    # Nodes

    @step_invariant
    def records_are_applied_in_order(self, before: Node, after: Node, step: Step, shared: Shared) -> bool:
        """A node applies committed records in order, as far as its software can read them.

        kafka-cluster, steps 4 and 5; Rejected Alternatives, UnregisterBrokerRecord.
        """
        if after.running != before.running or after.cursor == before.cursor:
            return True
        read = step == become(before.but(cursor=before.cursor + 1))
        return before.running and read and not self._is_stuck(before, shared)

    def _is_stuck(self, node: Node, shared: Shared) -> bool:
        """Whether a node's software cannot read its next committed record."""
        for record in shared.log[node.cursor : shared.committed][:1]:
            if isinstance(record, FeatureLevelRecord):
                return record.level > node.supports
            return isinstance(record, UnregisterControllerRecord) and node.supports < UNREGISTRATION_LEVEL
        return False

    @step_invariant
    def nodes_go_down_for_a_reason(self, before: Node, after: Node, step: Step, shared: Shared) -> bool:
        """A running node stops only if the operator stops it or it cannot read a record, and loses its volatile state.

        kafka-cluster ("after a controller is stopped"); Rejected Alternatives ("would crash the controllers").
        Registration responses cover a rejected broker.
        """
        if step.consumes or after.running or not before.running:
            return step.consumes or "stops" not in step.spends
        down: Node = before.but(running=False, registering=False)
        stopped = become(down.but(due=()) if isinstance(down, Controller) else down)
        if shared.active == before.id:
            stopped = stopped.put(active=Nil.NIL)
        return step == stopped.spend("stops") or (step == stopped and self._is_stuck(before, shared))

    @step_invariant
    def nodes_start_as_they_were(self, before: Node, after: Node, step: Step, shared: Shared) -> bool:
        """A restarted node has its former software; a replacement may have the newest.

        KIP-919 ("IncarnationId"); Compatibility ("bring up another controller node with the same node ID"). A node to
        be unregistered comes back against User Experience ("does not intend to bring that node back").
        """
        if before.running or not after.running:
            return not {"starts", "returns", "replacements"} & set(step.spends)
        started: Node = before.but(running=True, incarnation=before.incarnation + 1, cursor=0)
        kept = become(started).spend("returns" if before.id in shared.decommissioned else "starts")
        replaced = become(started.but(supports=self.newest)).spend("replacements")
        return step == kept or (before.supports < self.newest and step == replaced)

    @step_invariant
    def nodes_register_as_they_are(self, before: Node, after: Node, step: Step, shared: Shared) -> bool:
        """A running node without a registration of its incarnation sends one to the active controller.

        It waits for the response. A controller does so even after it was unregistered, a broker only after a start.
        Controller Changes ("already attempts to re-register"); KIP-919; KIP-631, BrokerRegistration.
        """
        if after.registering <= before.registering:
            return not any(isinstance(message, RegistrationRequest) for message in step.sent)
        if isinstance(shared.active, Nil) or not before.running or before.cursor != shared.committed:
            return False
        known = [self._registration(before.id, shared.log[:end]) for end in range(before.cursor + 1)]
        asked = known[-1:] if isinstance(before, Controller) else known
        request = RegistrationRequest(before.incarnation, before.supports, before.id, shared.active)
        needed = before.incarnation not in [one.incarnation for one in asked if one]
        return needed and step == become(before.but(registering=True)).send(request)

    @step_invariant
    def registering_ends_with_the_answer(self, before: Node, message: RegistrationResponse, step: Step) -> bool:
        """A response ends a node's registration attempt; a rejected broker, and no other node, stops.

        Responses to an earlier incarnation change nothing. KIP-919; KIP-631, BrokerRegistration.
        """
        refused = isinstance(before, Broker) and message.error is Error.UNSUPPORTED_VERSION
        answered = before.but(registering=False, running=not refused)
        return step == consume(answered if before.running and message.incarnation == before.incarnation else before)

    # The operator

    @step_invariant
    def tools_ask_the_active_controller(self, before: Admin, after: Admin, step: Step, shared: Shared) -> bool:
        """A tool starts with its request to the active controller, for the given node or the next level.

        CLI changes, kafka-cluster, step 1; kafka-metadata-quorum, step 1. A node to be unregistered is not to come back
        (User Experience).
        """
        begins = before.command is Nil.NIL and isinstance(after.command, Command)
        if not begins or not isinstance(after.command, Command):
            return step.consumes or not step.sent
        tool, target = after.command.tool, after.command.target
        nodes = self.brokers if tool is Tool.UNREGISTER_BROKER else self.controllers
        if tool is Tool.UPGRADE:
            fits = target == self._level(shared.log[: shared.committed]) + 1 <= self.newest
        else:
            fits = target in nodes
        kind, bound = FIRST_REQUEST_OF_TOOL[tool]
        request = kind(target, before.serial + 1, shared.active)  # type: ignore[arg-type]
        begun = become(Admin(command=after.command, serial=before.serial + 1)).send(request).spend(bound)
        if tool in (Tool.REMOVE_CONTROLLER, Tool.UPGRADE):
            return fits and step == begun
        begun = begun.put(decommissioned=shared.decommissioned | {target})
        return fits and step in (begun, begun.spend("careless"))

    @step_invariant
    def tools_go_by_their_answers(self, before: Admin, message: AdminResponse, step: Step, shared: Shared) -> bool:
        """A tool ends with its response; --unregister continues exactly if the voter was removed.

        kafka-metadata-quorum, step 4 ("if steps 1-3 were successful"), else the error and the advice to use the other
        tool. Late responses change nothing.
        """
        command = before.command
        if not isinstance(command, Command) or message.serial != before.serial:
            return step == consume(before)
        first = command.tool is Tool.REMOVE_AND_UNREGISTER and not before.unregistering
        goes_on = first and message.error is Error.NONE
        if goes_on and not isinstance(shared.active, Nil):
            assert isinstance(command.target, ModelValue)
            request = UnregisterControllerRequest(command.target, before.serial + 1, shared.active)
            return step == consume(before.but(unregistering=True, serial=before.serial + 1)).send(request)
        error = Error.NOT_CONTROLLER if goes_on else message.error
        outcome = Outcome(command, error, advice=first and error is not Error.NONE)
        return step == consume(Admin(serial=before.serial, outcome=outcome))

    @step_invariant
    def tools_wait_for_a_while(self, before: Admin, after: Admin, step: Step, shared: Shared) -> bool:
        """A tool ends only with a response or by REQUEST_TIMED_OUT. Admin.java; KIP-853.

        The configuration changes between tools or beside one, by one voter of a static quorum (User Experience).
        """
        voters = dict(step.puts).get("voters", shared.voters)
        if voters != shared.voters or "configurations" in step.spends:
            removed = shared.voters - voters
            changed = become(before).put(voters=shared.voters - removed).spend("configurations")
            return self.static and len(removed) == 1 and step == changed
        if step.consumes or not isinstance(before.command, Command):
            return step.consumes or (after.command is not Nil.NIL and "timeouts" not in step.spends)
        first = before.command.tool is Tool.REMOVE_AND_UNREGISTER and not before.unregistering
        outcome = Outcome(before.command, Error.REQUEST_TIMED_OUT, advice=first)
        return step == become(Admin(serial=before.serial, outcome=outcome)).spend("timeouts")

    # Queries of a log

    def _registration(self, node: ModelValue, log: Log) -> Registered | None:
        """Return a node's registration at the end of a log; None if the node is not registered."""
        last = next((record for record in reversed(log) if _node_of_record(record) == node), None)
        if last is None and node not in self.unregistered:
            return Registered(1, self.old_level if node in self.old else self.newest)
        if isinstance(last, RegisterControllerRecord | RegisterBrokerRecord):
            return Registered(last.incarnation, last.supports)
        return None

    def _level(self, log: Log) -> int:
        last = _last_record(log, FeatureLevelRecord)
        return last.level if isinstance(last, FeatureLevelRecord) else self.initial_level

    def _voters(self, log: Log) -> frozenset[ModelValue]:
        last = _last_record(log, VotersRecord)
        return last.voters if isinstance(last, VotersRecord) else self.initial_voters


def _last_record(log: Log, kind: type[LogRecord]) -> LogRecord | None:
    """Return the last record of a kind in a log; None if there is none."""
    return next((record for record in reversed(log) if isinstance(record, kind)), None)


def _node_of_record(record: LogRecord) -> ModelValue | None:
    """Return the node that a record registers or unregisters, or None."""
    if isinstance(record, RegisterControllerRecord | UnregisterControllerRecord):
        return record.controller
    return record.broker if isinstance(record, RegisterBrokerRecord | UnregisterBrokerRecord) else None


def _response_to(request: Request, error: Error) -> Response:
    if isinstance(request, RegistrationRequest):
        return RegistrationResponse(incarnation=request.incarnation, error=error, dest=request.source)
    return AdminResponse(error=error, serial=request.serial)
