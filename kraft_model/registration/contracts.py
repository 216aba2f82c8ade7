"""Contracts of `registration`: how a request is answered, what an answer leads to, what a node does by itself.

Each names its source. They use no rule that an action uses, so that a slip in such a rule does not change them too.
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
FIRST_REQUESTS: dict[Tool, tuple[type[AdminRequest], str]] = {
    Tool.UNREGISTER_CONTROLLER: (UnregisterControllerRequest, "unregistrations"),
    Tool.UNREGISTER_BROKER: (UnregisterBrokerRequest, "unregistrations"),
    Tool.REMOVE_CONTROLLER: (RemoveVoterRequest, "removals"),
    Tool.REMOVE_AND_UNREGISTER: (RemoveVoterRequest, "removals"),
    Tool.UPGRADE: (UpdateFeaturesRequest, "upgrades"),
}
"""What each tool asks for first, and the bound of how often it is run. CLI changes; KIP-853; KIP-584."""


class RegistrationContracts(RegistrationBase):
    # The active controller

    @step_invariant
    def others_answer_not_controller(self, before: Controller, message: Request, step: Step, shared: Shared) -> bool:
        """NOT_CONTROLLER is the answer if, and only if, a request does not arrive at the active controller.

        New RPC, UnregisterControllerRequest. A controller that is down answers nothing: the connection breaks.
        """
        error = Error.NOT_CONTROLLER if before.running else Error.DISCONNECTED
        refused = consume(before).reply(_response(message, error))
        return (step == refused) != (before.running and shared.active == before.id)

    @step_invariant
    def registrations_are_persisted(
        self, before: Controller, message: RegistrationRequest, step: Step, shared: Shared
    ) -> bool:
        """A node's registration is persisted as it is, unless a broker does not support the finalized level.

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
        """An UnregisterControllerRecord is written if metadata.version has it and the controller is registered.

        If not, the answer is the error for what is wrong. New RPC, UnregisterControllerRequest, errors; kafka-cluster,
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
        """An UnregisterBrokerRecord is written if, and only if, the broker is registered. KIP-631, UnregisterBroker."""
        known = self._registration(message.broker, shared.log)
        error = Error.NONE if known else Error.BROKER_ID_NOT_REGISTERED
        return self._handles(before, message, step, shared, error, UnregisterBrokerRecord(message.broker))

    @step_invariant
    def voters_are_removed(self, before: Controller, message: RemoveVoterRequest, step: Step, shared: Shared) -> bool:
        """A VotersRecord without the voter is written if, and only if, nothing that KIP-853 names is in the way.

        KIP-853, RemoveVoter: a static quorum (UNSUPPORTED_VERSION), another change that is not committed
        (REQUEST_TIMED_OUT), no such voter (VOTER_NOT_FOUND), no other voter (INVALID_REQUEST).
        """
        voters = self._voters(shared.log)
        error = Error.INVALID_REQUEST if voters == {message.voter} else Error.NONE
        if message.voter not in voters:
            error = Error.VOTER_NOT_FOUND
        if _last(shared.log[shared.committed :], VotersRecord):
            error = Error.REQUEST_TIMED_OUT
        if self.static:
            error = Error.UNSUPPORTED_VERSION
        return self._handles(before, message, step, shared, error, VotersRecord(voters - {message.voter}))

    @step_invariant
    def levels_are_finalized(
        self, before: Controller, message: UpdateFeaturesRequest, step: Step, shared: Shared
    ) -> bool:
        """A higher level is finalized if, and only if, every member supports it by its registration.

        Motivation ("determining if all cluster members support a feature level"); KIP-584, UpdateFeatures. The active
        controller asks itself; in a static quorum every other voter has to be registered.
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
        """Whether an active controller answers with an error, or writes a record and answers nothing as yet."""
        if not before.running or shared.active != before.id:
            return True
        if error is not Error.NONE:
            return step == consume(before).reply(_response(message, error))
        due = Due(len(shared.log) + 1, _response(message, Error.NONE))
        return step == consume(before.but(due=(*before.due, due))).put(log=(*shared.log, record))

    @step_invariant
    def what_is_committed_is_answered(self, before: Controller, step: Step, shared: Shared) -> bool:
        """Whoever waits is answered once its record is committed, and nobody else, and not before.

        kafka-cluster, step 3; kafka-metadata-quorum, steps 3 and 6. An active controller that has removed itself leaves
        office then (KIP-853, RemoveVoter, step 7).
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
        """An active controller that loses the leadership tells those that wait. New RPC, NOT_CONTROLLER."""
        if "resignations" not in step.spends:
            return True
        answers = [due.response.but(error=Error.NOT_CONTROLLER) for due in before.due]
        resigned = become(before.but(due=())).put(active=Nil.NIL).send(*answers).spend("resignations")
        return shared.active == before.id and step == resigned

    # Nodes

    @step_invariant
    def records_are_applied_in_order(self, before: Node, after: Node, step: Step, shared: Shared) -> bool:
        """A node applies what is committed record by record, as far as its software can read it.

        kafka-cluster, steps 4 and 5; Rejected Alternatives, UnregisterBrokerRecord.
        """
        if after.running != before.running or after.cursor == before.cursor:
            return True
        read = step == become(before.but(cursor=before.cursor + 1))
        return before.running and read and not self._is_stuck(before, shared)

    def _is_stuck(self, node: Node, shared: Shared) -> bool:
        """Whether the next record is one that a node's software does not know."""
        for record in shared.log[node.cursor : shared.committed][:1]:
            if isinstance(record, FeatureLevelRecord):
                return record.level > node.supports
            return isinstance(record, UnregisterControllerRecord) and node.supports < UNREGISTRATION_LEVEL
        return False

    @step_invariant
    def nodes_go_down_for_a_reason(self, before: Node, after: Node, step: Step, shared: Shared) -> bool:
        """A node that runs goes down where it is stopped, or cannot read a record. The rest that it held is lost.

        kafka-cluster ("after a controller is stopped"); Rejected Alternatives ("would crash the controllers"). What a
        refused broker does is said of registration responses.
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
        """A node that starts has the software that it had; only a replacement has newer, and only it need not.

        KIP-919 ("IncarnationId"); Compatibility ("bring up another controller node with the same node ID"). One that
        was to be unregistered comes back against User Experience ("does not intend to bring that node back").
        """
        if before.running or not after.running:
            return not {"starts", "returns", "replacements"} & set(step.spends)
        started: Node = before.but(running=True, incarnation=before.incarnation + 1, cursor=0)
        kept = become(started).spend("returns" if before.id in shared.decommissioned else "starts")
        replaced = become(started.but(supports=self.newest)).spend("replacements")
        return step == kept or (before.supports < self.newest and step == replaced)

    @step_invariant
    def nodes_register_as_they_are(self, before: Node, after: Node, step: Step, shared: Shared) -> bool:
        """A node that runs, and does not find itself registered, asks the active controller to register it as it is.

        It waits for the answer. A controller does so also where it was unregistered, a broker only once it has started.
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
        """A node that is answered waits no longer; a broker that is refused stops, and nobody else does.

        Answers to an earlier incarnation change nothing. KIP-919; KIP-631, BrokerRegistration.
        """
        refused = isinstance(before, Broker) and message.error is Error.UNSUPPORTED_VERSION
        answered = before.but(registering=False, running=not refused)
        return step == consume(answered if before.running and message.incarnation == before.incarnation else before)

    # The operator

    @step_invariant
    def tools_ask_the_active_controller(self, before: Admin, after: Admin, step: Step, shared: Shared) -> bool:
        """A tool begins with its request to the active controller, for the node or the next level that it is given.

        CLI changes, kafka-cluster, step 1; kafka-metadata-quorum, step 1. Whom it unregisters is not to come back
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
        kind, bound = FIRST_REQUESTS[tool]
        request = kind(target, before.serial + 1, shared.active)  # type: ignore[arg-type]
        begun = become(Admin(command=after.command, serial=before.serial + 1)).send(request).spend(bound)
        if tool in (Tool.REMOVE_CONTROLLER, Tool.UPGRADE):
            return fits and step == begun
        begun = begun.put(decommissioned=shared.decommissioned | {target})
        return fits and step in (begun, begun.spend("careless"))

    @step_invariant
    def tools_go_by_their_answers(self, before: Admin, message: AdminResponse, step: Step, shared: Shared) -> bool:
        """A tool ends with the answer to its request. --unregister goes on if, and only if, the voter was removed.

        kafka-metadata-quorum, step 4 ("if steps 1-3 were successful"), else the error and the advice to use the other
        tool. Late answers change nothing.
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
        """A tool that gets no answer ends with a timeout; else only an answer ends it. Admin.java; KIP-853.

        Only between tools, or beside one, is the configuration changed, by one voter of a static quorum (User
        Experience).
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

    # What a log says

    def _registration(self, node: ModelValue, log: Log) -> Registered | None:
        """Return the registration of a node that stands after some records; None if there is none."""
        last = next((record for record in reversed(log) if _subject(record) == node), None)
        if last is None and node not in self.unregistered:
            return Registered(1, self.old_level if node in self.old else self.newest)
        if isinstance(last, RegisterControllerRecord | RegisterBrokerRecord):
            return Registered(last.incarnation, last.supports)
        return None

    def _level(self, log: Log) -> int:
        last = _last(log, FeatureLevelRecord)
        return last.level if isinstance(last, FeatureLevelRecord) else self.initial_level

    def _voters(self, log: Log) -> frozenset[ModelValue]:
        last = _last(log, VotersRecord)
        return last.voters if isinstance(last, VotersRecord) else self.initial_voters


def _last(log: Log, kind: type[LogRecord]) -> LogRecord | None:
    """Return the last record of a kind; None if there is none."""
    return next((record for record in reversed(log) if isinstance(record, kind)), None)


def _subject(record: LogRecord) -> ModelValue | None:
    """Return the node whose registration a record is about; None if it is about none."""
    if isinstance(record, RegisterControllerRecord | UnregisterControllerRecord):
        return record.controller
    return record.broker if isinstance(record, RegisterBrokerRecord | UnregisterBrokerRecord) else None


def _response(request: Request, error: Error) -> Response:
    if isinstance(request, RegistrationRequest):
        return RegistrationResponse(incarnation=request.incarnation, error=error, dest=request.source)
    return AdminResponse(error=error, serial=request.serial)
